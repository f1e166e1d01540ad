"""``lakelog secrets``: secrets in the options of tables."""

from __future__ import annotations

from typing import Final

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.service.plain_secrets import plain_secrets, replace_secrets, write_files

_AFTER: Final = (
    "Older schema files, backups and replicas still have the values: change these passwords at their servers, then in "
    "the environment or the files."
)
_ROWS: Final = pa.schema([(name, pa.string()) for name in ("table", "key", "reference", "state")])


@click.group()
def secrets() -> None:
    """Replace secrets in the options of tables by references."""


@secrets.command()
@click.argument("tables", nargs=-1, shell_complete=complete_tables)
@click.option("--to", "pattern", required=True, metavar="REFERENCE",
              help="Reference, such as secret:env:NAME or secret:file:/path; {database}, {table} and {key} are "
                   "replaced.")  # fmt: skip
@click.option(
    "--write-files",
    "writes_files",
    is_flag=True,
    help="Create missing files of secret:file: references, with mode 0600.",
)
@click.option("--dry-run", is_flag=True, help="List the secrets, and change nothing.")
@warehouse_option
@format_option
def migrate(
    tables: tuple[str, ...], pattern: str, writes_files: bool, dry_run: bool, warehouse: str, format_name: str
) -> None:
    """Replace plain secrets in the options of TABLES (db.table; default: all) by references.

    Each table gets a new schema. Nothing is changed unless each reference has, in this process, the value that the
    table has. Values are never printed.
    """
    with connect(warehouse=warehouse) as lake:
        names = tables or lake.list_tables()
        plain = list(plain_secrets(lake, names, pattern))
        if writes_files and not dry_run:
            write_files(lake, plain)
            plain = list(plain_secrets(lake, names, pattern))
        if not dry_run:
            replace_secrets(lake, plain)
    state = "plain" if dry_run else "replaced"
    rows = [
        {"table": one.table, "key": one.key, "reference": one.reference, "state": one.fault or state} for one in plain
    ]
    PRINTERS[format_name]().print_result([pa.Table.from_pylist(rows, _ROWS)])
    if plain and not dry_run:
        click.echo(_AFTER, err=True)
