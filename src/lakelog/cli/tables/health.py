"""``lakelog health``: health of tables, with findings, needs, blocked work and fixes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
import orjson
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.io.quantities import format_bytes, format_duration
from lakelog.table.health.health import TableHealth

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
    lake = connect(warehouse=warehouse)
    try:
        found = [lake.health(name, not no_log) for name in tables or lake.list_tables()]
        found.sort(key=lambda one: (one.score, one.table))
    finally:
        lake.close()
    _print(found, bool(tables), format_name)
    if not all(one.is_healthy for one in found):
        sys.exit(1)


def _print(found: Sequence[TableHealth], with_parts: bool, format_name: str) -> None:
    if format_name == "jsonl":
        for one in found:
            click.echo(orjson.dumps(one.to_json()).decode())
        return
    printer = PRINTERS[format_name]()
    printer.print_result([_table(_SUMMARY, [_summary(one) for one in found])])
    for one in found if with_parts else ():
        findings = [(f.kind, f.reason, f.what_to_do) for f in one.findings]
        parts = [(p.name, p.points, p.of, p.why) for p in one.parts]
        needs = [(n.kind, n.urgency, n.reason, n.what_to_do) for n in one.needs]
        waits = [(w.what, w.why, w.what_to_do) for w in one.waits]
        for schema, rows in ((_FINDINGS, findings), (_PARTS, parts), (_NEEDS, needs), (_WAITS, waits)):
            if rows:
                printer.print_result([_table(schema, rows)])


def _summary(found: TableHealth) -> tuple[Any, ...]:
    problems = ", ".join([one.kind for one in found.findings] + [need.kind for need in found.needs])
    if found.figures is None:
        return found.table, found.score, *(None,) * 7, problems
    stats = found.figures
    history, log, now = stats.snapshots, stats.log, stats.looked_ms
    behind = None if log is None or log.waiting_ms is None else format_duration(now - log.waiting_ms)
    return (
        found.table,
        found.score,
        stats.files,
        format_bytes(stats.bytes),
        stats.most_runs,
        history.kept,
        None if history.newest_ms is None else f"{format_duration(now - history.newest_ms)} ago",
        found.lag,
        behind,
        problems,
    )


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
