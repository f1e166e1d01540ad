"""``lakelog tail``: prints what a table's log receives, without Spark."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.output import PRINTERS, format_option, limit_option, warehouse_option
from lakelog.lake import connect


@click.command()
@click.argument("table")
@click.option(
    "--start",
    type=click.Choice(["latest", "earliest", "latest-full"]),
    default="latest",
    show_default=True,
    help="Where to begin; latest-full prints the newest snapshot first.",
)
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the end that the log has now.")
@limit_option
@warehouse_option
@format_option
def tail(table: str, start: str, stop: str | None, limit: int | None, warehouse: str, format_name: str) -> None:
    """Print the changes of TABLE (db.table) as its log receives them, with their row kind, until Ctrl-C."""
    lake = connect(warehouse=warehouse)
    try:
        batches = lake.table(table).tail(start=start, stop=stop)
        PRINTERS[format_name]().print_result((pa.Table.from_batches([batch]) for batch in batches), limit)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end of a tail, not a failure.
        return
    finally:
        lake.close()
