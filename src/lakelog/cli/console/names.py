"""Completion of names in a shell: tables of the warehouse."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect
from lakelog.errors import LakelogError

_MOST: Final = 500


def complete_tables(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tables with a prefix; none if the warehouse does not answer."""
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
"""The argument for a table (``db.table``)."""
