"""``lakelog tail``: prints the rows that a table's log receives, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import PRINTERS, format_option, limit_option, warehouse_option
from lakelog.errors import InvalidRequest
from lakelog.table.tail.tail import Tail


@click.command()
@table_argument
@click.option(
    "--start",
    type=click.Choice(["latest", "earliest", "latest-full"]),
    default="latest",
    show_default=True,
    help="Start position; latest-full prints the newest snapshot first.",
)
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@click.option(
    "--position-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Resume from the position in this file, and save the new position there.",
)
@limit_option
@warehouse_option
@format_option
def tail(
    table: str,
    start: str,
    stop: str | None,
    position_file: Path | None,
    limit: int | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Print the changes of TABLE (db.table) as its log receives them, with their row kind, until Ctrl-C.

    With --position-file a partly printed batch is printed again on the next run.
    """
    lake = connect(warehouse=warehouse)
    try:
        begin = start if position_file is None else _kept(position_file) or start
        batches = lake.table(table).tail(start=begin, stop=stop)
        shown = batches if position_file is None else _keeping(batches, position_file)
        PRINTERS[format_name]().print_result((pa.Table.from_batches([batch]) for batch in shown), limit)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end of a tail, not a failure.
        return
    finally:
        lake.close()


def _kept(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise InvalidRequest(f"cannot read the position in '{file}': {failed.strerror}") from failed


def _keeping(batches: Tail, file: Path) -> Iterator[pa.RecordBatch]:
    """The batches; the request for the next one stores the position after the last one."""
    for batch in batches:
        yield batch
        new = file.with_name(f"{file.name}.new")
        try:
            new.write_text(f"{batches.position}\n", encoding="utf-8")
            os.replace(new, file)
        except OSError as failed:
            raise InvalidRequest(f"cannot write the position to '{file}': {failed.strerror}") from failed
