"""Records of a log for a page: a line for each, or for each change if the format packs many into a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, LakelogError
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import ABORT, BEGIN, COMMIT, CORRECTION, DATA, decode_header
from lakelog.options.log import DATA_FORMAT
from lakelog.options.option import Options
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN, kinds_from_text
from lakelog.service.dashboard.previews.grid import VALUE_CHARACTERS, Grid, RecordsRequest, instant_text
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable

_COLUMNS: Final = ("offset", "time", "kind", "writer", "epoch", "attempt", "key", "value", "bytes")
_NUMBERS: Final = ("offset", "position", "epoch", "bytes")
_KINDS: Final = {DATA: "data", CORRECTION: "correction", BEGIN: "begin", COMMIT: "commit", ABORT: "abort"}
_CHUNK: Final = 1_000
"""Maximum number of records in memory."""

Line = list[Any]


@dataclass(frozen=True)
class RecordLines:
    """The lines of one request.

    The changes of a packed record are shown in the default format, with their position in the record. All of them have
    the offset and the size of the record.
    """

    table: DynamicTable
    request: RecordsRequest

    @cached_property
    def _scan(self) -> LogScan:
        return LogScan(self.table)

    @property
    def _is_packed(self) -> bool:
        return self._scan.form.changes_per_record > 1

    def read(self) -> Grid:
        """The grid. Raises InvalidRequest for an unknown bucket, and the errors of reading."""
        reader, asked = self._scan.reader, self.request
        ends = reader.end_offsets()
        if asked.bucket not in ends:
            raise InvalidRequest(f"table {asked.table} has buckets {min(ends)} to {max(ends)}, not {asked.bucket}")
        first, end = reader.first_offsets([asked.bucket])[asked.bucket], ends[asked.bucket]
        columns = ("offset", "position", *_COLUMNS[1:]) if self._is_packed else _COLUMNS
        kinds = ["number" if name in _NUMBERS else "time" if name == "time" else "" for name in columns]
        if asked.offset is not None:
            start = max(first, asked.offset)
        elif asked.time_ms is not None:
            start = max(first, reader.offsets_at(asked.time_ms)[asked.bucket])
        elif asked.text:
            start = first
        elif self._is_packed:
            return Grid(columns, self._last(first, end), False, len(columns), kinds)
        else:
            start = max(first, end - asked.limit)
        rows = list(islice(self._from(start, end), asked.limit + 1))
        return Grid(columns, rows[: asked.limit], len(rows) > asked.limit, len(columns), kinds)

    @property
    def _most(self) -> int:
        """The number of records that are read at a time."""
        return min(_CHUNK, self._scan.most_records)

    def _from(self, start: int, end: int) -> Iterator[Line]:
        """The lines of the records with start ≤ offset < end."""
        for chunk in self._scan.reader.chunks(self.request.bucket, start, end, self._most):
            for record in self._records(chunk):
                yield from self._lines(record)

    def _last(self, first: int, end: int) -> list[Line]:
        """The last lines, from at most as many records; a part of the records is in memory at a time."""
        left, start, lines = self.request.limit, max(first, end - self.request.limit), list[Line]()
        while end > start and left > 0:
            begin = max(start, end - self._most)
            for record in reversed(self._records(self._scan.reader.read(self.request.bucket, begin, end, self._most))):
                more = self._lines(record)[-left:] if left else []
                lines, left = [*more, *lines], left - len(more)
            end = begin
        return lines

    def _records(self, chunk: pa.Table) -> list[pa.Table]:
        """The records one by one, without those that one line would not show for lack of the text."""
        if self.request.text and not self._is_packed:
            chunk = chunk.filter(_contain(chunk, self.request.text))
        return [chunk.slice(at, 1) for at in range(chunk.num_rows)]

    def _lines(self, record: pa.Table) -> list[Line]:
        """The lines of one record that the request asks for."""
        line = _line(record)
        if not self._is_packed:
            return [line]
        begin = self.request.position if line[0] == self.request.offset else 0
        changes = self._changes(record)
        if changes is None:
            changes = pa.table({"key": record.column("key"), "value": record.column("value")})
        positions = np.arange(changes.num_rows)
        is_shown = positions >= begin
        if self.request.text:
            is_shown &= _contain(changes, self.request.text).to_numpy()
        chosen = changes.filter(pa.array(is_shown))
        texts = zip(*(map(_text, chosen.column(name)) for name in ("key", "value")), strict=True)
        return [
            [line[0], position, *line[1:-3], *text, line[-1]]
            for position, text in zip(positions[is_shown].tolist(), texts, strict=True)
        ]

    def _changes(self, record: pa.Table) -> pa.Table | None:
        """Keys and values of the changes in a record, in the default format; None if it has none or is unreadable."""
        values = record.column("value").combine_chunks()
        if values.null_count:
            return None
        try:
            ((number, _, _),) = self._scan.schemas.runs(record.column("header"))
            rows = self._scan.decoded(values, number).combine_chunks()
            rows.validate(full=True)
            kinds = kinds_from_text(rows.column(ROW_KIND_COLUMN).combine_chunks(), ROW_KIND_COLUMN).to_numpy()
            (batch,) = rows.drop_columns([ROW_KIND_COLUMN]).to_batches()
            mode, keys = self.table.changelog_mode, self.table.schema.primary_keys
            shown, _ = log_format(Options().need(DATA_FORMAT)).encode(batch, kinds, mode, keys, b"")
        except (LakelogError, ValueError, pa.ArrowException):
            return None
        return pa.table({"key": shown.keys, "value": shown.values})


def _contain(records: pa.Table, text: str) -> pa.ChunkedArray:
    """Marks the records with this text in their key or value."""
    marks = (pc.greater_equal(pc.find_substring(records.column(part), text.encode()), 0) for part in ("key", "value"))
    return pc.or_(*(pc.fill_null(mark, False) for mark in marks))


def _line(record: pa.Table) -> Line:
    (row,) = record.to_pylist()
    header = decode_header(row["header"], row["offset"])
    time = instant_text(row["timestamp_ms"])
    kind = _KINDS.get(header.kind, header.kind)
    taken = sum(len(row[part] or b"") for part in ("key", "value", "header"))
    key, value = (_text(record.column(part)[0]) for part in ("key", "value"))
    return [row["offset"], time, kind, header.writer, header.epoch, header.attempt, key, value, taken]


def _text(scalar: pa.Scalar) -> str | None:
    """Bytes as text if they are UTF-8, otherwise in hexadecimal."""
    data: bytes | None = scalar.as_py()
    if data is None:
        return None
    cut, more = data[:VALUE_CHARACTERS], "…" if len(data) > VALUE_CHARACTERS else ""
    text = cut.decode("utf-8", "replace")
    return (text if text.replace("\n", " ").isprintable() and "\ufffd" not in text else f"0x{cut.hex()}") + more
