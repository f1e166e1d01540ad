"""``lakelog log``: positions of the log, the snapshots, the writers and the named readers of a table."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.errors import InvalidRequest


@click.command()
@table_argument
@click.option("--end-writer", metavar="ID", help="End this streaming writer first. Its query must not restart.")
@warehouse_option
@format_option
def log(table: str, end_writer: str | None, warehouse: str, format_name: str) -> None:
    """Show the log of TABLE (db.table): its buckets, then its writers, then its named readers."""
    lake = connect(warehouse=warehouse)
    try:
        if end_writer is not None:
            lake.table(table).end_writer(end_writer)
        found = lake.table(f"{table}$log").scan().to_arrow()
    finally:
        lake.close()
    if not found.num_rows:
        raise InvalidRequest(f"table {table} has no log: it was created without 'log-store.enabled'='true'")
    printer = PRINTERS[format_name]()
    for kind in found.column("kind").unique():
        printer.print_result([_filled(found.filter(pc.equal(found.column("kind"), kind)))])


def _filled(rows: pa.Table) -> pa.Table:
    """The columns of rows of this kind."""
    return rows.select([n for n in rows.column_names if rows.column(n).null_count < rows.num_rows])
