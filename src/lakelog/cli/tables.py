"""Commands that show tables: their columns, metadata, log and health."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect, warehouse_config
from lakelog.cli.console.names import complete_tables, table_argument
from lakelog.cli.console.output import PRINTERS, format_option, limit_option, warehouse_option
from lakelog.errors import InvalidRequest, NotFound
from lakelog.io import scheme_of
from lakelog.io.quantities import format_bytes, format_duration
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake import Table
from lakelog.table.health.health import TableHealth
from lakelog.table.open import identifier_of
from lakelog.table.system import SYSTEM_TABLES


@click.command()
@click.argument("database", required=False)
@warehouse_option
@format_option
def tables(database: str | None, warehouse: str, format_name: str) -> None:
    """List the tables of DATABASE, or of all databases."""
    with connect(warehouse=warehouse) as lake:
        names = [(table.database, table.table) for table in map(identifier_of, lake.list_tables(database))]
        root = warehouse_config(warehouse).warehouse
        if not names and scheme_of(root) == "file" and not LocalFileIO().exists(root):
            raise NotFound(f"no warehouse '{root}': give its directory with --warehouse")
    listed = pa.table(
        {"database": [name for name, _ in names], "table": [table for _, table in names]},
        schema=pa.schema({"database": pa.string(), "table": pa.string()}),
    )
    PRINTERS[format_name]().print_result([listed])


@click.command()
@table_argument
@click.option("--extended", is_flag=True, help="Include keys, stores, snapshot and options.")
@warehouse_option
@format_option
def describe(table: str, extended: bool, warehouse: str, format_name: str) -> None:
    """Show the columns of TABLE (db.table)."""
    with connect(warehouse=warehouse) as lake:
        lines = lake.table(table).describe(extended)
    described = pa.table(
        dict(zip(("name", "type", "comment"), zip(*lines, strict=True), strict=True)),
        schema=pa.schema({"name": pa.string(), "type": pa.string(), "comment": pa.string()}),
    )
    PRINTERS[format_name]().print_result([described])


_HISTORY: Final = "history"
_LOOKUPS: Final = "lookups"
_OTHERS: Final = {
    _HISTORY: "Snapshots, newest first, as in DESCRIBE HISTORY.",
    _LOOKUPS: "Hit counts and freshness of lookup joins with the table.",
}


def complete_what(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the system tables."""
    return [CompletionItem(name) for name in (*_OTHERS, *SYSTEM_TABLES) if name.startswith(incomplete)]


@click.command()
@table_argument
@click.argument("what", required=False, shell_complete=complete_what)
@click.option("--columns", metavar="A,B,…", help="Columns to print, in this order.")
@click.option("--where", metavar="CONDITION", help="Condition on the rows, as in a WHERE clause.")
@limit_option
@warehouse_option
@format_option
def show(
    table: str,
    what: str | None,
    columns: str | None,
    where: str | None,
    limit: int | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Show WHAT of TABLE (db.table): snapshots, files, partitions, buckets, tags, branches, options, schemas, history …

    WHAT is the name of a system table, db.table$WHAT. Without WHAT the command lists the names.
    """
    printer = PRINTERS[format_name]()
    if what is None:
        printer.print_result([_listed()], limit)
        return
    with connect(warehouse=warehouse) as lake:
        if what == _HISTORY:
            results = [_chosen(lake.table(table).history(limit).to_arrow(), columns, where)]
        elif what == _LOOKUPS:
            results = [_chosen(lake.lookup_stats(table), columns, where)]
        else:
            shown: Table = lake.table(f"{table}${what}")
            scan = shown.scan(columns=None if columns is None else _names(columns), filter=where)
            results = [scan.to_arrow()]
        printer.print_result(results, limit)


def _chosen(rows: pa.Table, columns: str | None, where: str | None) -> pa.Table:
    if where is not None:
        raise InvalidRequest("--where works with system tables only: leave it out")
    if columns is None:
        return rows
    for name in _names(columns):
        if name not in rows.column_names:
            raise InvalidRequest(f"no column '{name}'; columns: {', '.join(rows.column_names)}")
    return rows.select(_names(columns))


def _names(columns: str) -> list[str]:
    return [name.strip() for name in columns.split(",")]


def _listed() -> pa.Table:
    descriptions = {**_OTHERS, **{name: _first_line(SYSTEM_TABLES.load(name)) for name in SYSTEM_TABLES}}
    return pa.table({"what": list(descriptions), "shows": list(descriptions.values())})


def _first_line(part: object) -> str:
    return (inspect.getdoc(part) or "").partition("\n")[0].replace("``", "")


@click.command()
@table_argument
@click.option("--end-writer", metavar="ID", help="End this streaming writer first. Its query must not restart.")
@warehouse_option
@format_option
def log(table: str, end_writer: str | None, warehouse: str, format_name: str) -> None:
    """Show the log of TABLE (db.table): its buckets, then its writers, then its named readers."""
    with connect(warehouse=warehouse) as lake:
        if end_writer is not None:
            lake.table(table).end_writer(end_writer)
        rows = lake.table(f"{table}$log").scan().to_arrow()
    if not rows.num_rows:
        raise InvalidRequest(f"table {table} has no log: it was created without 'log-store.enabled'='true'")
    printer = PRINTERS[format_name]()
    for kind in rows.column("kind").unique():
        printer.print_result([_filled(rows.filter(pc.equal(rows.column("kind"), kind)))])


def _filled(rows: pa.Table) -> pa.Table:
    """The columns of rows of this kind."""
    return rows.select([n for n in rows.column_names if rows.column(n).null_count < rows.num_rows])


_TEXT, _INT = pa.string(), pa.int64()
_SUMMARY = pa.schema(
    [
        ("table", _TEXT),
        ("score", _INT),
        ("files", _INT),
        ("size", _TEXT),
        ("most_runs", _INT),
        ("snapshots", _INT),
        ("newest", _TEXT),
        ("lag", _INT),
        ("behind", _TEXT),
        ("needs", _TEXT),
    ]
)
_FINDINGS = pa.schema([("finding", _TEXT), ("reason", _TEXT), ("what_to_do", _TEXT)])
_PARTS = pa.schema([("part", _TEXT), ("points", pa.float64()), ("of", _INT), ("why", _TEXT)])
_NEEDS = pa.schema([("needs", _TEXT), ("urgency", _INT), ("reason", _TEXT), ("what_to_do", _TEXT)])
_WAITS = pa.schema([("waits", _TEXT), ("why", _TEXT), ("what_to_do", _TEXT)])


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]…", shell_complete=complete_tables)
@click.option("--no-log", is_flag=True, help="Skip the logs.")
@warehouse_option
@format_option
def health(tables: tuple[str, ...], no_log: bool, warehouse: str, format_name: str) -> None:
    """Show the health of TABLE (db.table), or of all tables, worst first.

    It shows a score from 0 to 100, findings, pending maintenance and blocked operations. With --format jsonl each table
    is one object with all its statistics. Exits with 1 if a finding other than a warning is shown.
    """
    with connect(warehouse=warehouse) as lake:
        healths = [lake.health(name, not no_log) for name in tables or lake.list_tables()]
        healths.sort(key=lambda one: (one.score, one.table))
    _print(healths, bool(tables), format_name)
    if not all(one.is_healthy for one in healths):
        sys.exit(1)


def _print(healths: Sequence[TableHealth], with_parts: bool, format_name: str) -> None:
    if format_name == "jsonl":
        for one in healths:
            click.echo(orjson.dumps(one.to_json()).decode())
        return
    printer = PRINTERS[format_name]()
    printer.print_result([_table(_SUMMARY, [_summary(one) for one in healths])])
    for one in healths if with_parts else ():
        findings = [(f.kind, f.reason, f.what_to_do) for f in one.findings]
        parts = [(p.name, p.points, p.of, p.why) for p in one.parts]
        needs = [(n.kind, n.urgency, n.reason, n.what_to_do) for n in one.needs]
        waits = [(w.what, w.why, w.what_to_do) for w in one.waits]
        for schema, rows in ((_FINDINGS, findings), (_PARTS, parts), (_NEEDS, needs), (_WAITS, waits)):
            if rows:
                printer.print_result([_table(schema, rows)])


def _summary(health: TableHealth) -> tuple[Any, ...]:
    problems = ", ".join([one.kind for one in health.findings] + [need.kind for need in health.needs])
    if health.figures is None:
        return health.table, health.score, *(None,) * 7, problems
    stats = health.figures
    history, log, now = stats.snapshots, stats.log, stats.looked_ms
    behind = None if log is None or log.waiting_ms is None else format_duration(now - log.waiting_ms)
    return (
        health.table,
        health.score,
        stats.files,
        format_bytes(stats.bytes),
        stats.most_runs,
        history.kept,
        None if history.newest_ms is None else f"{format_duration(now - history.newest_ms)} ago",
        health.lag,
        behind,
        problems,
    )


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
