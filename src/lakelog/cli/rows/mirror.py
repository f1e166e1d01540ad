"""``lakelog mirror``: copies the log of a table to a Kafka topic for plain consumers, without Spark."""

from __future__ import annotations

import click

from lakelog.cli.console.connection import connect, warehouse_config
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import format_option, warehouse_option
from lakelog.cli.console.process import ended_by_signals
from lakelog.table.tail.mirror import STARTS


@click.command()
@table_argument
@click.option("--to", required=True, metavar="ADDRESS", help="Topic, such as kafka://host:9092/topic.")
@click.option(
    "--start",
    type=click.Choice(STARTS),
    default=STARTS[0],
    show_default=True,
    help="Start of a new mirror; latest-full copies the newest snapshot first. Later runs resume.",
)
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@warehouse_option
@format_option
def mirror(table: str, to: str, start: str, stop: str | None, warehouse: str, format_name: str) -> None:
    """Copy the committed changes of TABLE (db.table) to a Kafka topic as debezium-json, exactly once, until Ctrl-C.

    The next run continues where this one has stopped. Client properties, such as credentials, are in the part
    [properties] of the file of --config.
    """
    properties, printer = warehouse_config(warehouse).properties, FactPrinter(format_name)
    lake = connect(warehouse=warehouse)
    try:
        with ended_by_signals():
            for done in lake.table(table).mirror(to, start, stop, properties):
                facts = {"table": table, "to": to, "rows": done.rows, "lag": done.lag}
                printer.print(f"{done.rows:,} {'row' if done.rows == 1 else 'rows'}, lag {done.lag:,}", facts)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end; the next run resumes from the committed position.
        return
    finally:
        lake.close()
