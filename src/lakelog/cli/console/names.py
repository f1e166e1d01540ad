"""Names that a shell completes: tables of the warehouse, and what there is to show of them."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect
from lakelog.errors import LakelogError

_MOST: Final = 500


def complete_tables(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tables that begin so; none when the warehouse does not answer."""
    warehouse = context.params.get("warehouse") or context.lookup_default("warehouse") or "./warehouse"
    try:
        lake = connect(warehouse=warehouse)
        try:
            names = lake.list_tables()
        finally:
            lake.close()
    except LakelogError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MOST]


table_argument = click.argument("table", shell_complete=complete_tables)
"""The table (``db.table``) that a command is about."""
