"""``lakelog follow``: writes log-first rows of a table to its files, without Spark."""

from __future__ import annotations

import click

from lakelog.cli.console.connection import connect
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import format_option, warehouse_option


@click.command()
@table_argument
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the current end of the log.")
@click.option("--skip-missing", is_flag=True, help="Continue if the log has lost records that are not in files.")
@warehouse_option
@format_option
def follow(table: str, stop: str | None, skip_missing: bool, warehouse: str, format_name: str) -> None:
    """Materialize log-first rows of TABLE (db.table) into data files, until Ctrl-C."""
    lake = connect(warehouse=warehouse)
    printer = FactPrinter(format_name)
    try:
        for snapshot in lake.table(table).follow(stop, skip_missing):
            count = snapshot.delta_record_count or 0
            facts = {"table": table, "snapshot": snapshot.id, "rows": count, "time_ms": snapshot.time_millis}
            printer.print(f"snapshot {snapshot.id}: {count:,} {'row' if count == 1 else 'rows'}", facts)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end; the next follower goes on where this one was.
        return
    finally:
        lake.close()
