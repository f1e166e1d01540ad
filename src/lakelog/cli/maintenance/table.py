"""Commands that maintain one table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import pyarrow as pa
from click.shell_completion import CompletionItem
from rich.filesize import decimal

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables, table_argument
from lakelog.cli.console.output import PRINTERS, FactPrinter, format_option, warehouse_option
from lakelog.cli.console.process import Process, remark
from lakelog.errors import InvalidRequest
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.procedure import call_text
from lakelog.sql.runtime.statement import done_result
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
    specs = [dict(_pair(part) for part in spec.split(",")) for spec in partitions]
    with connect(warehouse=warehouse) as lake:
        done = lake.table(table).compact(full=not minor, partitions=specs, where=where, on_spark=on_spark)
    FactPrinter(format_name).print(_summary(done), _facts(table, done))


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


@click.command()
@table_argument
@click.option("--retain-max", type=int, help="Maximum number of snapshots to keep.")
@click.option("--retain-min", type=int, help="Minimum number of snapshots to keep.")
@click.option("--older-than", help="Minimum age of the snapshots to expire, such as '1 d'.")
@warehouse_option
@format_option
def expire(
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Expire old snapshots of TABLE (db.table). Defaults come from the table's options."""
    with connect(warehouse=warehouse) as lake:
        expired = lake.table(table).expire_snapshots(retain_max, retain_min, older_than)
    facts = {
        "table": table,
        "removed": len(expired),
        "first": min(expired, default=None),
        "last": max(expired, default=None),
    }
    FactPrinter(format_name).print(f"{len(expired)} snapshots removed", facts)


def complete_procedures(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of procedures."""
    return [CompletionItem(name) for name in PROCEDURES if name.startswith(incomplete)]


def complete_arguments(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The arguments of the procedure in the command line."""
    name = str(context.params.get("procedure"))
    known = PROCEDURES.load(name).parameters if name in PROCEDURES else ()
    return [CompletionItem(f"{p.name}=") for p in known if p.name.startswith(incomplete)]


@click.command()
@click.argument("procedure", required=False, shell_complete=complete_procedures)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]…", shell_complete=complete_arguments)
@warehouse_option
@format_option
def call(
    procedure: str | None, table: str | None, arguments: tuple[str, ...], warehouse: str, format_name: str
) -> None:
    """Run PROCEDURE on TABLE (db.table): tags, branches, rollback, expiry, cleaning and more.

    Without arguments it lists the procedures. 'lakelog call create_tag db.t tag=v1' runs CALL sys.create_tag(…).
    """
    printer = PRINTERS[format_name]()
    if procedure is None:
        printer.print_result([_listed()])
        return
    usage = _usage(procedure.removeprefix("sys."))
    if table is None:
        raise InvalidRequest(f"the table is missing: {usage}")
    with connect(warehouse=warehouse) as lake:
        answer = lake.run(statement_of(procedure.removeprefix("sys."), table, arguments))[-1]
        if isinstance(answer, pa.Table) and answer.num_columns and not answer.equals(done_result()):
            printer.print_result([answer])
        else:
            remark(f"{procedure.removeprefix('sys.')} of {table} is done")


def statement_of(procedure: str, table: str, arguments: tuple[str, ...]) -> str:
    """The equivalent CALL statement; every value is a text, which the argument's type converts."""
    pairs = [("table", table)]
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InvalidRequest(f"'{argument}' is not KEY=VALUE: {_usage(procedure)}")
        pairs.append((name.strip(), value))
    return call_text(procedure, pairs)


def _usage(procedure: str) -> str:
    parameters = PROCEDURES.load(procedure).parameters
    parts = [f"{p.name}=…" if p.required else f"[{p.name}=…]" for p in parameters]
    return " ".join(["lakelog call", procedure, "TABLE", *parts])


def _listed() -> pa.Table:
    names = list(PROCEDURES)
    return pa.table({"procedure": names, "usage": [_usage(name) for name in names]})
