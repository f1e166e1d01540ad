"""``lakelog expire``: removes old snapshots of one table."""

from __future__ import annotations

import click

from lakelog.cli.console.connection import connect
from lakelog.cli.console.facts import FactPrinter
from lakelog.cli.console.names import table_argument
from lakelog.cli.console.output import format_option, warehouse_option


@click.command()
@table_argument
@click.option("--retain-max", type=int, help="Maximum number of snapshots to keep.")
@click.option("--retain-min", type=int, help="Minimum number of snapshots to keep.")
@click.option("--older-than", help="Minimum age of the snapshots to expire, such as '1 d'.")
@warehouse_option
@format_option
def expire(
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    warehouse: str,
    format_name: str,
) -> None:
    """Expire old snapshots of TABLE (db.table). Defaults come from the table's options."""
    lake = connect(warehouse=warehouse)
    try:
        expired = lake.table(table).expire_snapshots(retain_max, retain_min, older_than)
    finally:
        lake.close()
    facts = {
        "table": table,
        "removed": len(expired),
        "first": min(expired, default=None),
        "last": max(expired, default=None),
    }
    FactPrinter(format_name).print(f"{len(expired)} snapshots removed", facts)
