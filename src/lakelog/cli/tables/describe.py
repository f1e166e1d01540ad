"""``lakelog describe``: the columns of one table."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option


@click.command()
@table_argument
@click.option("--extended", is_flag=True, help="Include keys, stores, snapshot and options.")
@warehouse_option
@format_option
def describe(table: str, extended: bool, warehouse: str, format_name: str) -> None:
    """Show the columns of TABLE (db.table)."""
    lake = connect(warehouse=warehouse)
    try:
        lines = lake.table(table).describe(extended)
    finally:
        lake.close()
    described = pa.table(
        dict(zip(("name", "type", "comment"), zip(*lines, strict=True), strict=True)),
        schema=pa.schema({"name": pa.string(), "type": pa.string(), "comment": pa.string()}),
    )
    PRINTERS[format_name]().print_result([described])
