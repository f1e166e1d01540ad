"""Rows of a table, a system table or a log, cut to the size of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.lake.output.plain_rows import JSON_OPTIONS, plain_rows

VALUE_CHARACTERS: Final = 500
COLUMNS: Final = 100
_BYTES: Final = 1 << 20
"""Maximum size of all values of a grid as text."""


@dataclass(frozen=True)
class Grid:
    """Rows with their column names; ``more`` is True if further rows follow.

    ``column_count`` is the number of all columns, of which at most 100 are shown at a time.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool
    column_count: int = 0


def grid_of(chunks: Iterable[pa.Table], limit: int, column_count: int | None = None) -> Grid:
    """At most ``limit`` rows as plain values, at most 1 MiB; reads no chunk beyond that."""
    columns: Sequence[str] = ()
    rows: list[Sequence[Any]] = []
    left = _BYTES
    for chunk in chunks:
        columns = chunk.column_names
        for row in plain_rows(_cut(chunk.slice(0, limit + 1 - len(rows)))):
            shown = [_shown(value) for value in row]
            left -= sum(len(value) if isinstance(value, str) else 8 for value in shown)
            if left < 0 and rows:
                return Grid(columns, rows[:limit], True, column_count or len(columns))
            rows.append(shown)
        if len(rows) > limit:
            break
    return Grid(columns, rows[:limit], len(rows) > limit, column_count or len(columns))


def _cut(chunk: pa.Table) -> pa.Table:
    """The chunk with long texts and bytes cut before they become Python values."""
    for at, field in enumerate(chunk.schema):
        kind, column = field.type, chunk.column(at)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            chunk = chunk.set_column(at, field, pc.utf8_slice_codeunits(column, 0, VALUE_CHARACTERS + 1))
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            chunk = chunk.set_column(at, field, pc.binary_slice(column, 0, VALUE_CHARACTERS + 1))
    return chunk


def _shown(value: Any) -> Any:
    """A value for a page: long texts are cut, and long nested values become text."""
    if isinstance(value, list | dict | tuple):
        text = orjson.dumps(value, default=str, option=JSON_OPTIONS).decode()
        return value if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"
    if isinstance(value, str) and len(value) > VALUE_CHARACTERS:
        return f"{value[:VALUE_CHARACTERS]}…"
    return value


def column_page(names: Sequence[str], first: int) -> list[str]:
    """The names of at most 100 columns from a given one on."""
    return list(islice(names, first, first + COLUMNS))


@dataclass(frozen=True)
class RowsRequest:
    """Rows of the newest snapshot, with the columns from ``first_column`` on."""

    table: str
    limit: int
    first_column: int = 0


@dataclass(frozen=True)
class SystemRequest:
    """The first rows of a system table, such as ``files``."""

    table: str
    kind: str
    limit: int


@dataclass(frozen=True)
class RecordsRequest:
    """Records of a bucket of the log.

    They start at ``offset``, or at the first one appended at ``time_ms`` or later. Without both they are the last ones.
    If a record has several changes, each is a line, and ``position`` is the first one of the record at ``offset``. With
    ``key``, only those whose key contains this text.
    """

    table: str
    bucket: int
    limit: int
    offset: int | None = None
    time_ms: int | None = None
    key: str = ""
    position: int = 0


@dataclass(frozen=True)
class TailRequest:
    """The events of a tail (``tail.py``), until the socket of the request is closed."""

    table: str


Request = RowsRequest | SystemRequest | RecordsRequest
_KINDS = {kind.__name__: kind for kind in (RowsRequest, SystemRequest, RecordsRequest, TailRequest)}


def to_json(request: Request | TailRequest) -> dict[str, Any]:
    return {"request": type(request).__name__, "fields": asdict(request)}


def from_json(values: dict[str, Any]) -> Request | TailRequest:
    return _KINDS[values["request"]](**values["fields"])
