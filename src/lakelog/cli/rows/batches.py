"""Commands that read or write some rows of a table, without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import (
    PRINTERS,
    CsvPrinter,
    FactPrinter,
    JsonLinesPrinter,
    format_option,
    warehouse_option,
)
from lakelog.errors import InvalidRequest
from lakelog.lake import Table
from lakelog.options.log import READ_MODE
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.service.row_files import Printer, export_rows, file_schema, read_rows
from lakelog.table.read.base import TableScan


@dataclass(frozen=True)
class Reading:
    """The read options of a command."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    fresh: bool = False

    def scan(self, table: Table) -> TableScan:
        """The read of a table. Raises InvalidRequest, NotFound."""
        return table.scan(
            self.columns,
            self.where,
            self.snapshot,
            self.tag,
            self.timestamp,
            options={READ_MODE.key: "union"} if self.fresh else None,
        )


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the read options to a command, which gets them as the argument ``reading``."""

    @click.option("--columns", metavar="A,B,…", help="Columns to print, in this order.")
    @click.option("--where", metavar="CONDITION", help="Condition on the rows, as in a WHERE clause.")
    @click.option("--snapshot", type=int, metavar="ID", help="Snapshot to read.")
    @click.option("--tag", help="Tag to read.")
    @click.option("--timestamp", metavar="TIME", help="Time of the snapshot to read, such as '2024-01-31 12:00:00'.")
    @click.option("--fresh", is_flag=True, help="Include rows not yet in a snapshot.")
    @wraps(command)
    def with_reading(
        *arguments: Any,
        columns: str | None,
        where: str | None,
        snapshot: int | None,
        tag: str | None,
        timestamp: str | None,
        fresh: bool,
        **more: Any,
    ) -> Any:
        names = None if columns is None else tuple(name.strip() for name in columns.split(","))
        return command(*arguments, reading=Reading(names, where, snapshot, tag, timestamp, fresh), **more)

    return with_reading


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
    with connect(warehouse=warehouse) as lake:
        PRINTERS[format_name]().print_result(_chunks(reading.scan(lake.table(table))), limit)


def _chunks(scan: TableScan) -> Iterator[pa.Table]:
    """The rows in the order of reading; an empty result still has its columns."""
    batches = iter(scan.to_batches())
    first = next(batches, None)
    yield scan.schema.empty_table() if first is None else pa.Table.from_batches([first])
    yield from (pa.Table.from_batches([batch]) for batch in batches)


_PRINTERS: Final[dict[str, Printer]] = {
    ".csv": lambda stream: CsvPrinter(stream).print_more,  # type: ignore[arg-type]
    ".jsonl": lambda stream: JsonLinesPrinter(stream).print_more,  # type: ignore[arg-type]
}


@click.command()
@table_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@reading_options
@warehouse_option
@format_option
def export(table: str, file: Path, reading: Reading, warehouse: str, format_name: str) -> None:
    """Write the rows of TABLE (db.table) to FILE: .parquet, .arrow, .csv or .jsonl; to stdout when FILE is -.

    FILE appears once it is complete. Rows on stdout are CSV, or JSON lines with --format jsonl. This needs no Spark.
    """
    with connect(warehouse=warehouse) as lake:
        scan = reading.scan(lake.table(table))
        if str(file) == "-":
            printer = JsonLinesPrinter() if format_name == "jsonl" else CsvPrinter()
            printer.print_more(scan.schema.empty_table(), first=True)  # the header
            for batch in scan.to_batches():
                printer.print_more(pa.Table.from_batches([batch]), first=False)
            return
        rows = export_rows(scan, file, _PRINTERS)
    facts = {"table": table, "file": str(file), "rows": rows}
    FactPrinter(format_name).print(f"{rows:,} rows of {table} in {file}", facts)


@click.command()
@table_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--overwrite", is_flag=True, help="Replace the table, or the partitions of the new rows.")
@click.option("--create", is_flag=True, help="Create the table with the columns of the first file.")
@click.option("--primary-key", metavar="A,B,…", help="Primary key of the new table.")
@warehouse_option
@format_option
def load(
    table: str,
    files: tuple[Path, ...],
    overwrite: bool,
    create: bool,
    primary_key: str | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Write the rows of FILES (.parquet, .arrow, .csv with a header, .jsonl) into TABLE (db.table) as one commit.

    A column _row_kind (+I, -U, +U, -D) turns rows into changes. If a file is unreadable, nothing is committed.
    """
    if primary_key and not create:
        raise InvalidRequest("--primary-key is that of a new table: add --create")
    with connect(warehouse=warehouse) as lake, contextlib.ExitStack() as undo:
        if create:
            columns = [field for field in file_schema(files[0]) if field.name != ROW_KIND_COLUMN]
            keys = primary_key.split(",") if primary_key else None
            target = lake.create_table(table, pa.schema(columns), primary_key=keys)
            undo.callback(lake.drop_table, table)
        else:
            target = lake.table(table)
        rows = 0
        with target.writer(overwrite=True) if overwrite else target.writer() as writer:
            for file in files:
                for batch in read_rows(file, target.schema):
                    writer.write(batch)
                    rows += batch.num_rows
        undo.pop_all()
        newest = target.latest_snapshot()
    facts = {"table": table, "rows": rows, "snapshot": None if newest is None else newest.id}
    FactPrinter(format_name).print(f"{rows:,} rows written to {table}", facts)
