"""Names on the command line: completion of tables in a shell, and options of tables."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect
from lakelog.errors import InvalidOption, LakelogError

_MOST: Final = 500


def complete_tables(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of tables with a prefix; none if the warehouse does not answer."""
    warehouse = context.params.get("warehouse") or context.lookup_default("warehouse") or "./warehouse"
    try:
        with connect(warehouse=warehouse) as lake:
            names = lake.list_tables()
    except LakelogError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)][:_MOST]


table_argument = click.argument("table", shell_complete=complete_tables)
"""The argument for a table (``db.table``)."""


def option_pairs(options: tuple[str, ...]) -> dict[str, str]:
    """The options of repeated ``--option KEY=VALUE``. Raises InvalidOption."""
    pairs = [option.partition("=") for option in options]
    for option, (key, equals, _) in zip(options, pairs, strict=True):
        if not equals or not key.strip():
            raise InvalidOption(f"'{option}' is not KEY=VALUE: write --option bucket=4")
    return {key.strip(): value.strip() for key, _, value in pairs}
