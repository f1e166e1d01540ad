"""``lakelog load``: writes the rows of files to both stores of a table, without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from lakelog.cli.console.connection import connect
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import format_option, warehouse_option
from lakelog.service.row_files import read_rows


@click.command()
@table_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace the table, or the partitions of the new rows.")
@warehouse_option
@format_option
def load(table: str, files: tuple[Path, ...], overwrite: bool, warehouse: str, format_name: str) -> None:
    """Write the rows of FILES (.parquet, .arrow, .csv with a header, .jsonl) into TABLE (db.table) as one commit.

    A column _row_kind (+I, -U, +U, -D) turns rows into changes. If a file is unreadable, nothing is committed.
    """
    lake = connect(warehouse=warehouse)
    try:
        target = lake.table(table)
        rows = 0
        with target.writer(overwrite=True) if overwrite else target.writer() as writer:
            for file in files:
                for batch in read_rows(file, target.schema):
                    writer.write(batch)
                    rows += batch.num_rows
        newest = target.latest_snapshot()
    finally:
        lake.close()
    facts = {"table": table, "rows": rows, "snapshot": None if newest is None else newest.id}
    FactPrinter(format_name).print(f"{rows:,} rows written to {table}", facts)
