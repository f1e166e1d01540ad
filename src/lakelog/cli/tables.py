"""``lakelog tables``: the names of a warehouse."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.connection import connect
from lakelog.cli.output import PRINTERS, format_option, warehouse_option


@click.command()
@click.argument("database", required=False)
@warehouse_option
@format_option
def tables(database: str | None, warehouse: str, format_name: str) -> None:
    """List the tables of DATABASE, or of all databases."""
    lake = connect(warehouse=warehouse)
    try:
        names = [name.split(".", 1) for name in lake.list_tables(database)]
    finally:
        lake.close()
    listed = pa.table(
        {"database": [name for name, _ in names], "table": [table for _, table in names]},
        schema=pa.schema({"database": pa.string(), "table": pa.string()}),
    )
    PRINTERS[format_name]().print_result([listed])
