"""``lakelog head``: prints a few rows of a table, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.cli.rows.reading import Reading, reading_options
from lakelog.table.read.base import TableScan


@click.command()
@table_argument
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of rows."
)
@reading_options
@warehouse_option
@format_option
def head(table: str, limit: int, reading: Reading, warehouse: str, format_name: str) -> None:
    """Print some rows of TABLE (db.table), read from its files.

    Row order is undefined. This needs no Spark.
    """
    lake = connect(warehouse=warehouse)
    try:
        PRINTERS[format_name]().print_result(_chunks(reading.scan(lake.table(table))), limit)
    finally:
        lake.close()


def _chunks(scan: TableScan) -> Iterator[pa.Table]:
    """The rows in the order of reading; an empty result still has its columns."""
    batches = iter(scan.to_batches())
    first = next(batches, None)
    yield scan.schema.empty_table() if first is None else pa.Table.from_batches([first])
    yield from (pa.Table.from_batches([batch]) for batch in batches)
