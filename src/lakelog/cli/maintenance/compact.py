"""``lakelog compact``: merges the files of one table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lakelog.cli.console.connection import connect
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import format_option, warehouse_option
from lakelog.cli.console.process import Process, current_process
from lakelog.table.maintenance.compaction_commit import CompactionSummary


@click.command()
@table_argument
@click.option("--minor", is_flag=True, help="Compact only buckets with too many files.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="KEY=VALUE,…", help="Compact only this partition; repeatable."
)
@click.option(
    "--where", metavar="CONDITION", help="Compact only partitions that match this condition on partition columns."
)
@click.option("--spark", "on_spark", is_flag=True, help="Start a local Spark session and compact on all its cores.")
@warehouse_option
@format_option
@click.pass_obj
def compact(
    process: Process | None,
    table: str,
    minor: bool,
    partitions: tuple[str, ...],
    where: str | None,
    on_spark: bool,
    warehouse: str,
    format_name: str,
) -> None:
    """Compact the files of every bucket of TABLE (db.table)."""
    if on_spark and process is not None:
        process.silence_children()
    lake = connect(warehouse=warehouse)
    specs = [dict(_pair(part) for part in spec.split(",")) for spec in partitions]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    try:
        with Progress(*columns, console=console, transient=True, disable=_is_hidden(console)) as bar:
            shown = bar.add_task(f"compact {table}, buckets", total=None)
            done = lake.table(table).compact(
                full=not minor,
                partitions=specs,
                where=where,
                on_spark=on_spark,
                progress=lambda finished, total: bar.update(shown, completed=finished, total=total),
            )
    finally:
        lake.close()
    FactPrinter(format_name).print(_summary(done), _facts(table, done))


def _is_hidden(console: Console) -> bool:
    return current_process().quiet or not console.is_terminal


def _facts(table: str, done: CompactionSummary) -> dict[str, Any]:
    facts = asdict(done)
    return {"table": table, "snapshot": None if done.snapshot is None else done.snapshot.id} | {
        name: value for name, value in facts.items() if name != "snapshots"
    }


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise click.BadParameter(f"'{part}' is not KEY=VALUE", param_hint="--partition")
    return name.strip(), value.strip()


def _summary(done: CompactionSummary) -> str:
    left = [f"{done.busy} buckets leased by another compactor"] if done.busy else []
    left += [f"{done.lost} buckets changed by another commit meanwhile"] if done.lost else []
    if done.snapshot is None:
        return "; ".join(["nothing to compact", *left])
    before, after = decimal(done.bytes_before), decimal(done.bytes_after)
    files = f"{done.files_before} files ({before}) became {done.files_after} ({after})"
    buckets = "1 bucket" if done.buckets == 1 else f"{done.buckets} buckets"
    return "; ".join([f"snapshot {done.snapshot.id}: {buckets}, {files} in {done.seconds:.1f} s", *left])
