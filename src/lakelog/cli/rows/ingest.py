"""``lakelog ingest``: copies tables of a PostgreSQL database and follows their changes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click
from rich.filesize import decimal

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import option_pairs
from lakelog.cli.console.output import FactPrinter, format_option, warehouse_option
from lakelog.cli.console.process import ended_by_signals, remark
from lakelog.options.option import parse_duration


@click.command()
@click.argument("source")
@click.option("--tables", required=True, metavar="NAME[,NAME]…", help="Tables of SOURCE, such as public.orders.")
@click.option("--into", required=True, metavar="DATABASE", help="Database of the new tables, which keep their names.")
@click.option("--slot", default="", metavar="NAME", help="Replication slot. Default: a name made of the database.")
@click.option("--publication", default="", metavar="NAME", help="Publication. Default: the name of the slot.")
@click.option("--commit-interval", default="1 s", show_default=True, help="Age of a change at which it is committed.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Option of new tables; repeatable.")
@click.option("--once", is_flag=True, help="Stop at the current end of the changes.")
@click.option("--copy-again", is_flag=True, help="Replace the rows of the tables by a new snapshot first.")
@click.option("--status", is_flag=True, help="Print positions and the slot only.")
@click.option("--drop-slot", is_flag=True, help="Drop slot and publication only, after the last run.")
@warehouse_option
@format_option
def ingest(
    source: str,
    tables: str,
    into: str,
    slot: str,
    publication: str,
    commit_interval: str,
    options: tuple[str, ...],
    once: bool,
    copy_again: bool,
    status: bool,
    drop_slot: bool,
    warehouse: str,
    format_name: str,
) -> None:
    """Copy tables of SOURCE (postgres://user@host/database) and follow their changes, exactly once, until Ctrl-C.

    The password is in PGPASSWORD or ~/.pgpass. The next run continues where this one has stopped. Until then, and until
    --drop-slot, the slot makes the server keep all changes.
    """
    printer = FactPrinter(format_name)
    # Ctrl-C is the usual end; the next run resumes from the committed positions
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt):
        ingest_run = lake.ingest(
            source,
            [name for name in tables.split(",") if name.strip()],
            into,
            slot=slot,
            publication=publication,
            interval_s=parse_duration(commit_interval).total_seconds(),
            options=option_pairs(options),
        )
        if drop_slot:
            was_dropped = ingest_run.drop_slot()
            word = "dropped" if was_dropped else "does not exist"
            printer.print(f"slot {ingest_run.slot_name} {word}", {"slot": ingest_run.slot_name, "dropped": was_dropped})
        elif status:
            for one in ingest_run.status():
                printer.print(_status_line(one), asdict(one))
        else:
            with ended_by_signals():
                _print_progress(ingest_run.run(once=once, copy_again=copy_again), printer)


def _print_progress(run: Iterable[Any], printer: FactPrinter) -> None:
    for done in run:
        if done.phase == "wait":
            remark(f"waiting: {done.why}")
        elif done.phase == "stream" or done.is_last:
            printer.print(_line(done), asdict(done))


def _line(done: Any) -> str:
    if done.phase == "copy":
        return f"{done.table}: {done.rows:,} rows copied"
    return (
        f"{done.rows:,} {'row' if done.rows == 1 else 'rows'} to {done.position}, lag {done.lag_s:.1f} s, "
        f"{decimal(done.lag_bytes)}"
    )


def _status_line(one: Any) -> str:
    state = "in use" if one.is_active else "not in use" if one.has_slot else "does not exist"
    where = f"at {one.position}" if one.position else "not copied yet"
    return f"{one.table} ({one.source}): {where}; slot {one.slot} {state}, holds {decimal(one.held_bytes)}"
