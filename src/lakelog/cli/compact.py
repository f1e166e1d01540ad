"""``lakelog compact``: merges the files of one table."""

from __future__ import annotations

import click

from lakelog.cli.output import warehouse_option
from lakelog.lake import connect


@click.command()
@click.argument("table")
@click.option("--minor", is_flag=True, help="Only buckets that have too many files.")
@warehouse_option
def compact(table: str, minor: bool, warehouse: str) -> None:
    """Merge the files of every bucket of TABLE (db.table)."""
    lake = connect(warehouse=warehouse)
    try:
        made = lake.table(table).compact(full=not minor)
    finally:
        lake.close()
    click.echo("nothing to compact" if made is None else f"snapshot {made.id}")
