"""``lakelog export``: writes the rows of a table to a file, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import CsvPrinter, JsonLinesPrinter, format_option, warehouse_option
from lakelog.cli.rows.reading import Reading, reading_options
from lakelog.service.row_files import Printer, export_rows

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
    lake = connect(warehouse=warehouse)
    try:
        scan = reading.scan(lake.table(table))
        schema: pa.Schema = scan.schema
        if str(file) == "-":
            printer = JsonLinesPrinter() if format_name == "jsonl" else CsvPrinter()
            printer.print_more(schema.empty_table(), first=True)  # the header
            for batch in scan.to_batches():
                printer.print_more(pa.Table.from_batches([batch]), first=False)
            return
        rows = export_rows(scan.to_batches(), schema, file, _PRINTERS)
    finally:
        lake.close()
    facts = {"table": table, "file": str(file), "rows": rows}
    FactPrinter(format_name).print(f"{rows:,} rows of {table} in {file}", facts)
