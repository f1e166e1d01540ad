"""``lakelog follow``: makes files of the rows that were written to a table's log first, without Spark."""

from __future__ import annotations

import click

from lakelog.cli.output import warehouse_option
from lakelog.lake import connect


@click.command()
@click.argument("table")
@click.option("--stop", type=click.Choice(["latest"]), help="Stop at the end that the log has now.")
@click.option("--skip-missing", is_flag=True, help="Go on when the log has lost records that are not in the files.")
@warehouse_option
def follow(table: str, stop: str | None, skip_missing: bool, warehouse: str) -> None:
    """Make files of the rows that real-time queries have written to the log of TABLE (db.table), until Ctrl-C."""
    lake = connect(warehouse=warehouse)
    try:
        for snapshot in lake.table(table).follow(stop, skip_missing):
            count = snapshot.delta_record_count or 0
            click.echo(f"snapshot {snapshot.id}: {count:,} {'row' if count == 1 else 'rows'}")
    except KeyboardInterrupt:
        # Ctrl-C is the usual end; the next follower goes on where this one was.
        return
    finally:
        lake.close()
