"""``lakelog show``: metadata of a table, from its system tables."""

from __future__ import annotations

import inspect
from typing import Final

import click
import pyarrow as pa
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, format_option, limit_option, warehouse_option
from lakelog.errors import InvalidRequest
from lakelog.lake import Table
from lakelog.table.system import SYSTEM_TABLES

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
    lake = connect(warehouse=warehouse)
    try:
        if what == _HISTORY:
            found = [_chosen(lake.table(table).history(limit), columns, where)]
        elif what == _LOOKUPS:
            found = [_chosen(lake.lookup_stats(table), columns, where)]
        else:
            shown: Table = lake.table(f"{table}${what}")
            scan = shown.scan(columns=None if columns is None else _names(columns), filter=where)
            found = [scan.to_arrow()]
        printer.print_result(found, limit)
    finally:
        lake.close()


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
