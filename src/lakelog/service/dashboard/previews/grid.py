"""Rows of a table, a system table or a log, cut to the size of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, get_args

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.io.clock import instant_of_local
from lakelog.lake.output.plain_rows import JSON_OPTIONS, plain_rows

VALUE_CHARACTERS: Final = 500
COLUMNS: Final = 100
_BYTES: Final = 1 << 20
"""Maximum size of all values of a grid as text."""


_EMPTY: Final = (None, "", "{}")


@dataclass(frozen=True)
class Grid:
    """Rows with their column names; ``more`` is True if further rows follow.

    ``column_count`` is the number of all columns, of which at most 100 are shown at a time. ``kinds`` says how a column
    is shown: ``number``, ``time`` or empty for text.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    more: bool
    column_count: int = 0
    kinds: Sequence[str] = ()

    def spoken(self) -> Grid:
        """For a person: names with spaces, without columns that have no value."""
        kept = [at for at in range(len(self.columns)) if any(row[at] not in _EMPTY for row in self.rows)]
        shown = kept if self.rows else range(len(self.columns))
        names = [self.columns[at].replace("_", " ") for at in shown]
        rows = [[row[at] for at in shown] for row in self.rows]
        return Grid(names, rows, self.more, len(names), [self.kinds[at] for at in shown] if self.kinds else ())


def grid_of(chunks: Iterable[pa.Table], limit: int, column_count: int | None = None) -> Grid:
    """At most ``limit`` rows as plain values, at most 1 MiB; reads no chunk beyond that."""
    columns: Sequence[str] = ()
    kinds: Sequence[str] = ()
    rows: list[Sequence[Any]] = []
    left = _BYTES
    for chunk in chunks:
        columns, kinds = chunk.column_names, [shown_kind(one) for one in chunk.schema.types]
        for row in plain_rows(_cut(chunk.slice(0, limit + 1 - len(rows)))):
            shown = [_shown(value) for value in row]
            left -= sum(len(value) if isinstance(value, str) else 8 for value in shown)
            if left < 0 and rows:
                return Grid(columns, rows[:limit], True, column_count or len(columns), kinds)
            rows.append(shown)
        if len(rows) > limit:
            break
    return Grid(columns, rows[:limit], len(rows) > limit, column_count or len(columns), kinds)


def shown_kind(kind: pa.DataType) -> str:
    """How a column of this type is shown, see ``Grid``."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "time" if pa.types.is_timestamp(kind) else ""


def instant_text(time_ms: int) -> str:
    """``2024-01-31T12:00:00.000Z``."""
    return f"{np.datetime64(time_ms, 'ms')}Z"


def in_utc(rows: pa.Table) -> pa.Table:
    """Rows of a system table with its times, which are local, as instants."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is None:
            millis = rows.column(at).cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
            instants = [None if value is None else instant_of_local(value) for value in millis]
            rows = rows.set_column(at, field.name, pa.array(instants, pa.timestamp("ms", "UTC")))
    return rows


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
    """Rows of the newest snapshot that match a condition, with the columns from ``first_column`` on."""

    table: str
    limit: int
    first_column: int = 0
    where: str = ""


@dataclass(frozen=True)
class HistoryRequest:
    """The changes of the rows that match a condition, from the log and from the snapshots."""

    table: str
    where: str
    limit: int


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
    ``text``, only those whose key or value contains it.
    """

    table: str
    bucket: int
    limit: int
    offset: int | None = None
    time_ms: int | None = None
    text: str = ""
    position: int = 0


@dataclass(frozen=True)
class ExportRequest:
    """All rows of the newest snapshot that match a condition, as ``csv`` or ``jsonl``."""

    table: str
    where: str
    format: str


@dataclass(frozen=True)
class TailRequest:
    """The events of a tail (``tail.py``), until the socket of the request is closed."""

    table: str


Request = RowsRequest | SystemRequest | RecordsRequest | HistoryRequest
StreamRequest = TailRequest | ExportRequest
_KINDS = {kind.__name__: kind for kind in (*get_args(Request), *get_args(StreamRequest))}


def to_json(request: Request | StreamRequest) -> dict[str, Any]:
    return {"request": type(request).__name__, "fields": asdict(request)}


def from_json(values: dict[str, Any]) -> Request | StreamRequest:
    request: Request | StreamRequest = _KINDS[values["request"]](**values["fields"])
    return request
