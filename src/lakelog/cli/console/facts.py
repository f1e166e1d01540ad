"""Result of a command: one sentence for people, an object or a row for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import pyarrow as pa

from lakelog.cli.console.output import PRINTERS, RowPrinter
from lakelog.options.names import visible


class FactPrinter:
    """Prints results, once or repeatedly: a sentence, or with ``--format jsonl`` or ``csv`` the facts."""

    def __init__(self, format_name: str) -> None:
        self._rows: RowPrinter | None = None if format_name == "table" else PRINTERS[format_name]()
        self._is_first = True

    def print(self, sentence: str, facts: Mapping[str, Any]) -> None:
        """Prints a result; its facts have the same names each time."""
        if self._rows is None:
            click.echo(visible(sentence))
            return
        row = pa.table({name: [value] for name, value in facts.items()})
        self._rows.print_more(row, self._is_first)
        self._is_first = False
