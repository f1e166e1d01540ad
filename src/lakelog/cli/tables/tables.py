"""``lakelog tables``: the tables of a warehouse."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect, warehouse_config
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.errors import NotFound
from lakelog.io import scheme_of
from lakelog.io.storage.local import LocalFileIO
from lakelog.table.open import identifier_of


@click.command()
@click.argument("database", required=False)
@warehouse_option
@format_option
def tables(database: str | None, warehouse: str, format_name: str) -> None:
    """List the tables of DATABASE, or of all databases."""
    lake = connect(warehouse=warehouse)
    try:
        names = [(found.database, found.table) for found in map(identifier_of, lake.list_tables(database))]
        root = warehouse_config(warehouse).warehouse
        if not names and scheme_of(root) == "file" and not LocalFileIO().exists(root):
            raise NotFound(f"no warehouse '{root}': give its directory with --warehouse")
    finally:
        lake.close()
    listed = pa.table(
        {"database": [name for name, _ in names], "table": [table for _, table in names]},
        schema=pa.schema({"database": pa.string(), "table": pa.string()}),
    )
    PRINTERS[format_name]().print_result([listed])
