"""``lakelog upgrade``: which versions read and write the tables of a warehouse."""

from __future__ import annotations

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.errors import InvalidRequest, LakelogError
from lakelog.table.health.versions import table_versions


@click.command()
@click.argument("tables", nargs=-1, shell_complete=complete_tables)
@click.option("--check", is_flag=True, help="List the features of the tables and the versions that know them.")
@warehouse_option
@format_option
def upgrade(tables: tuple[str, ...], check: bool, warehouse: str, format_name: str) -> None:
    """List what TABLES (db.table; default: all) use, and which versions of lakelog read and write them.

    Nothing has to be upgraded by hand: each process changes what it needs when it uses a table. Run this before you
    upgrade, or before you go back to an older version.
    """
    if not check:
        raise InvalidRequest("lakelog upgrades tables when it uses them: write lakelog upgrade --check")
    rows = []
    with connect(warehouse=warehouse) as lake:
        for name in tables or lake.list_tables():
            try:
                versions = table_versions(lake.table(name).logical)
                row = [", ".join(versions.features) or "-", versions.read_from, versions.written_from, versions.change]
            except LakelogError as why:
                row = ["unreadable", "-", "-", str(why)]
            rows.append(dict(zip(("table", "uses", "read_from", "written_from", "upgrade"), [name, *row], strict=True)))
    PRINTERS[format_name]().print_result([pa.Table.from_pylist(rows)])
