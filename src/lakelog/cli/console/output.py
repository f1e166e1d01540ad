"""Rows on stdout: as a table for people, as JSON lines or CSV for programs."""

from __future__ import annotations

import csv
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain, count
from typing import Any, Final, TextIO

import click
import orjson
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from lakelog.cli.console.process import SCREEN, echo
from lakelog.lake.output.plain_rows import JSON_OPTIONS, plain_rows
from lakelog.options.names import visible

_LINE_OPTIONS: Final = JSON_OPTIONS | orjson.OPT_APPEND_NEWLINE

_UNLIMITED: Final = 100_000
"""Width of a table in a file or a pipe, so that no value is folded."""


_LEAST: Final = 12
"""Minimum width of a column with folded values; below that, each value of a row gets its own line."""


class RowPrinter(ABC):
    """Prints the results of one command, one after the other, each in one or many chunks of rows."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._results = 0

    def print_result(self, chunks: Iterable[pa.Table], limit: int | None = None) -> int:
        """Prints the rows of one result as they arrive, at most ``limit``; returns their number."""
        printed = 0
        for chunk in first_rows(chunks, limit):
            self.print_more(chunk, first=printed == 0)
            printed += chunk.num_rows
        self._results += 1
        return printed

    def print_more(self, chunk: pa.Table, first: bool) -> None:
        """Prints rows of an unbounded result; ``first`` is True for its first rows."""
        with SCREEN.printing():
            self._print_chunk(chunk, first)
            self._stream.flush()

    @abstractmethod
    def _print_chunk(self, chunk: pa.Table, first: bool) -> None:
        """Prints rows; ``first`` is True for the first rows of a result."""


class JsonLinesPrinter(RowPrinter):
    """Prints one JSON object per row and nothing else.

    Decimals are strings (no digit is lost), times are ISO 8601, instants end in Z, bytes are ``0x…``, a map with text
    keys is an object and any other a list of pairs; NaN and infinities, which JSON does not have, are strings. Of
    columns with the same name, the second is ``name_2``.
    """

    def _print_chunk(self, chunk: pa.Table, first: bool) -> None:
        names = _distinct(chunk.column_names)
        lines = [orjson.dumps(dict(zip(names, row, strict=True)), option=_LINE_OPTIONS) for row in plain_rows(chunk)]
        self._stream.write(b"".join(lines).decode())


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of columns as keys of an object: a repeated one, as of a join, gets the suffix ``_2``, ``_3`` and so on."""
    paths: dict[str, None] = {}
    for name in names:
        tries = chain([name], (f"{name}_{number}" for number in count(2)))
        paths[next(one for one in tries if one not in paths and (one == name or one not in names))] = None
    return list(paths)


class CsvPrinter(RowPrinter):
    """Prints a header and one line per row; a null is an empty field, a nested value is JSON."""

    def _print_chunk(self, chunk: pa.Table, first: bool) -> None:
        writer = csv.writer(self._stream, lineterminator="\n")
        if first:
            if self._results:
                self._stream.write("\n")
            writer.writerow(chunk.column_names)
        writer.writerows([_as_text(value, null="") for value in row] for row in plain_rows(chunk))


class TablePrinter(RowPrinter):
    """Prints a table with lines; later chunks of a stream keep the column widths of the first."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._widths: list[int] = []

    def _print_chunk(self, chunk: pa.Table, first: bool) -> None:
        rows = [[visible(_as_text(value, null="null")) for value in row] for row in plain_rows(chunk)]
        if first:
            self._widths = [
                max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(chunk.column_names)
            ]
        room = None if self._stream.isatty() else _UNLIMITED
        console = Console(file=self._stream, width=room, markup=False, emoji=False, highlight=False)
        if first and self._results:
            console.print()
        least = [min(width, _LEAST) for width in self._widths]
        if sum(least) + 2 * len(least) > console.width:
            self._print_below_each_other(console, chunk.column_names, rows)
            return
        is_whole = sum(self._widths) + 2 * len(least) <= console.width
        drawn = RichTable(box=box.SIMPLE_HEAD, show_header=first, pad_edge=False, show_edge=False)
        for name, kind, width in zip(
            chunk.column_names, chunk.schema.types, self._widths if is_whole else least, strict=True
        ):
            right = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            drawn.add_column(visible(name), justify="right" if right else "left", min_width=width, overflow="fold")
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)

    def _print_below_each_other(self, console: Console, names: list[str], rows: list[list[str]]) -> None:
        """Prints each row as lines ``name  value``, on a terminal that is too narrow for the columns."""
        for row in rows:
            drawn = RichTable.grid(padding=(0, 2))
            drawn.add_column(min_width=max(map(len, names)), no_wrap=True)
            drawn.add_column(overflow="fold")
            for name, value in zip(names, row, strict=True):
                drawn.add_row(visible(name), value)
            console.print(drawn)
            console.print()


PRINTERS: Final[dict[str, type[RowPrinter]]] = {
    "table": TablePrinter,
    "jsonl": JsonLinesPrinter,
    "csv": CsvPrinter,
}

format_option = click.option(
    "--format", "format_name", type=click.Choice(list(PRINTERS)), default="table", show_default=True,
    help="Output format.",
)  # fmt: skip
warehouse_option = click.option(
    "--warehouse", default="./warehouse", envvar="LAKELOG_WAREHOUSE", show_default=True, show_envvar=True,
    metavar="DIR", help="Directory of the warehouse.",
)  # fmt: skip
limit_option = click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows.")


def first_rows(chunks: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """The chunks cut to ``limit`` rows in total; reads no further chunk."""
    left = math.inf if limit is None else limit
    for chunk in chunks:
        cut = chunk if chunk.num_rows <= left else chunk.slice(0, int(left))
        left -= cut.num_rows
        yield cut
        if left <= 0:
            return


def _as_text(value: Any, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, str):
        return value
    if isinstance(value, bool | dict | list):
        return orjson.dumps(value, option=JSON_OPTIONS).decode()
    if isinstance(value, int | float | Decimal):
        return str(value)
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode().strip('"')


class FactPrinter:
    """Prints results, once or repeatedly: a sentence, or with ``--format jsonl`` or ``csv`` the facts."""

    def __init__(self, format_name: str) -> None:
        self._rows: RowPrinter | None = None if format_name == "table" else PRINTERS[format_name]()
        self._is_first = True

    def print(self, sentence: str, facts: Mapping[str, Any]) -> None:
        """Prints a result; its facts have the same names each time."""
        if self._rows is None:
            echo(visible(sentence))
            return
        row = pa.table({name: [value] for name, value in facts.items()})
        self._rows.print_more(row, self._is_first)
        self._is_first = False
