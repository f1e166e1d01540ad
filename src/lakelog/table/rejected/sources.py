"""Sources of rows that may be bad: rows of a program, records of a log, and rows that were rejected before."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, InvalidSchema
from lakelog.io.arrow_messages import STAGED_ROWS, check_plain
from lakelog.logstore.encoding.record_format import MALFORMED
from lakelog.logstore.protocol.header import decode_header
from lakelog.options.log import DATA_FORMAT
from lakelog.options.option import Options
from lakelog.options.table import ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER, UPDATE_BEFORE
from lakelog.paimon.types.arrow import plain_batch
from lakelog.table.log.key_moves import with_moved_keys
from lakelog.table.log.record_schemas import RecordSchemas, runs_of
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.rows import REJECTED_SCHEMA, ROW_FORMAT, Rejects

T = TypeVar("T")
_NO_VALUE = (MemoryError, pa.ArrowCancelled, pa.ArrowNotImplementedError)
"""Errors of decoding that say nothing about a value: out of memory, interrupted, a type that Arrow cannot handle."""
_WINDOW_UNITS: Final = 4_096
_WINDOW_BYTES: Final = 16 << 20
"""Limits of what is judged at once, which bounds the memory of many small results."""
BEFORE, _AFTER = NAMES[UPDATE_BEFORE], (NAMES[UPDATE_AFTER], NAMES[INSERT])


class Source(ABC):
    """Rows or records by number, from 0 to ``count``. A *unit* is one of them, or the two rows of an update.

    ``batch`` holds them; ``kinds`` are their row kinds, None if a row may be alone.
    """

    batch: pa.RecordBatch | pa.Table
    kinds: Sequence[str] | None

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    @abstractmethod
    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows of some, with columns by name and perhaps ``_row_kind``. Raises InvalidSchema if one is bad."""

    @abstractmethod
    def stored(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """What is stored of them when they are rejected: columns for ``Rejects.add``."""

    def may_part(self, at: int) -> bool:
        """False if a row and the one before it are the two of an update."""
        kinds = self.kinds
        return kinds is None or kinds[at - 1] != BEFORE or kinds[at] not in _AFTER

    def cut(self, start: int, stop: int) -> int:
        """A number between them at which to part them; ``stop`` if they are one unit."""
        middle = (start + stop + 1) // 2
        if middle >= stop or self.may_part(middle):
            return middle
        return middle + 1 if middle + 1 < stop else middle - 1 if middle - 1 > start else stop


def judged(source: Source, work: Callable[[pa.RecordBatch], T], rejects: Rejects) -> Iterator[list[T]]:
    """The results of ``work`` for the good units, in order, for a limited number and size of units at a time.

    Bisection finds the bad ones, which are rejected. ``work`` gets some consecutive rows, has no effect, and raises
    InvalidSchema if one of them is bad. Other errors, such as MemoryError, are no fault of a row and pass.
    """
    for window in _windows(source):
        done, waiting = [], [window]
        while waiting:
            start, stop = waiting.pop()
            try:
                done.append(work(source.rows(start, stop)))
            except InvalidSchema as why:
                if not rejects.takes(why):
                    raise
                middle = source.cut(start, stop)
                if middle < stop:
                    waiting += [(middle, stop), (start, middle)]
                    continue
                for row in source.stored(start, stop):
                    rejects.add(row, str(why))
        yield done


def _windows(source: Source) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of units, none of which ends between the rows of an update."""
    units = max(1, min(_WINDOW_UNITS, source.count * _WINDOW_BYTES // max(1, source.nbytes)))
    start = 0
    while start < source.count:
        stop = min(source.count, start + units)
        stop += stop < source.count and not source.may_part(stop)
        yield start, stop
        start = stop


@dataclass(frozen=True)
class GivenRows(Source):
    """The rows of one batch of a program; ``first`` is the number of its first row in the task."""

    batch: pa.RecordBatch
    kinds: Sequence[str] | None
    first: int
    schema_id: int

    @staticmethod
    def of(batch: pa.RecordBatch, table: DynamicTable, first: int) -> GivenRows:
        """The rows of a batch for a table."""
        batch = plain_batch(batch)
        return GivenRows(batch, _kinds(batch, table), first, table.schema.id)

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        return self.batch.slice(start, stop - start)

    def stored(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """The place of each row in its task, and the row."""
        for number in range(start, stop):
            value = _to_ipc(self.batch.slice(number, 1))
            yield {"row": self.first + number, "format": ROW_FORMAT, "value": value, "schema_id": self.schema_id}


@dataclass(frozen=True)
class LogRecords(Source):
    """Records of one bucket (RECORDS_SCHEMA), all with values."""

    table: DynamicTable
    batch: pa.Table
    bucket: int
    kinds: Sequence[str] | None = None

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        records = self.batch.slice(start, stop - start)
        return _decoded(self.table, records.column("value"), RecordSchemas(self.table).runs(records.column("header")))

    def stored(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """The place of each record in the log, and its bytes."""
        log, form = self.table.log, self.table.options.need(DATA_FORMAT)
        place = {"task": None, "topic": None if log is None else log.topic, "bucket": self.bucket, "format": form}
        for record in self.batch.slice(start, stop - start).to_pylist():
            schema_id = decode_header(record["header"], record["offset"]).schema
            yield {**place, **{name: record[name] for name in ("offset", "key", "value")}, "schema_id": schema_id}


@dataclass(frozen=True)
class RejectedBefore(Source):
    """Rejected rows (REJECTED_SCHEMA), all of one kind: records of the table's log, or rows of programs."""

    table: DynamicTable
    batch: pa.Table
    kinds: Sequence[str] | None

    @staticmethod
    def parts(table: DynamicTable, batches: Iterable[pa.RecordBatch], of_log: bool) -> Iterator[RejectedBefore]:
        """Rejected rows part by part, none of which ends between the rows of an update."""
        rest = REJECTED_SCHEMA.empty_table()
        for batch in batches:
            rows = pa.concat_tables([rest, pa.Table.from_batches([batch], REJECTED_SCHEMA)])
            both = zip(rows.column("value").to_pylist(), rows.column("schema_id").to_pylist(), strict=True)
            kinds = [] if of_log else [_kind_of(value, number, table) for value, number in both]
            end = rows.num_rows - 1 if kinds and kinds[-1] == BEFORE else rows.num_rows
            yield RejectedBefore(table, rows.slice(0, end), None if of_log else kinds[:end])
            rest = rows.slice(end)
        if rest.num_rows:
            yield RejectedBefore(table, rest, [BEFORE])

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows of some, read again."""
        part = self.batch.slice(start, stop - start)
        values, ids = part.column("value"), part.column("schema_id")
        if self.kinds is None:
            return _decoded(self.table, values, runs_of(pc.fill_null(ids, -1).to_numpy()))
        try:
            both = zip(values.to_pylist(), ids.to_pylist(), strict=True)
            batches = [_renamed(_from_ipc(value), number, self.table) for value, number in both]
        except _NO_VALUE:
            raise
        except MALFORMED as why:
            raise InvalidSchema(f"the value cannot be read: {why}") from None
        if any(batch.schema != batches[0].schema for batch in batches):
            raise InvalidSchema("the rows have different columns")
        return pa.concat_batches(batches)

    def stored(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """The rows as they were stored before."""
        yield from self.batch.slice(start, stop - start).drop_columns(["reason"]).to_pylist()


def text_of(rows: pa.Table) -> pa.StringArray:
    """The values of rejected rows (REJECTED_SCHEMA) for people; bytes that are no text are replaced."""
    both = zip(rows.column("format").to_pylist(), rows.column("value").to_pylist(), strict=True)
    return pa.array([_text(value) if form == ROW_FORMAT else _utf8(value) for form, value in both], pa.string())


def _text(value: bytes) -> str | None:
    try:
        batch = _from_ipc(value)
        # bytes first: Python cannot read a text that is not UTF-8
        columns = [c.cast(pa.large_binary()) if _is_text(c.type) else c for c in batch.columns]
        cells = [cell.as_py() for cell in (column[0] for column in columns)]
    except MemoryError:
        raise
    except MALFORMED:
        return None  # the bytes are shown as they are
    shown = [_utf8(cell) if isinstance(cell, bytes) else cell for cell in cells]
    return ", ".join(f"{name}={cell}" for name, cell in zip(batch.schema.names, shown, strict=True))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _utf8(value: bytes) -> str:
    return value.decode(errors="replace")


def _kinds(batch: pa.RecordBatch, table: DynamicTable) -> Sequence[str] | None:
    """The row kinds of a batch, None if it has none."""
    at = batch.schema.get_field_index(Options(table.schema.options).get_typed(ROWKIND_FIELD) or ROW_KIND_COLUMN)
    return None if at < 0 else batch.column(at).to_pylist()


def _decoded(
    table: DynamicTable, values: pa.ChunkedArray, runs: Iterable[tuple[int | None, int, int]]
) -> pa.RecordBatch:
    """The rows of values; ``runs`` are their schemas: (its id, first, end) of consecutive values."""
    scan = LogScan(table)
    try:
        both = [(number, values.slice(at, end - at).combine_chunks()) for number, at, end in runs]
        parts = [scan.decoded(part, number) for number, part in both]
        lacks = {columns for number, part in both for columns in scan.lacking(part, number)}
        if len(lacks) > 1:
            raise InvalidSchema("the rows have different columns")
        rows = with_moved_keys(pa.concat_tables(parts, promote_options="default"), table)
        rows = rows.drop_columns(sorted(frozenset().union(*lacks)))
    except _NO_VALUE:
        raise
    except MALFORMED as why:
        raise InvalidSchema(f"the value cannot be read: {why}") from None
    batches = rows.to_batches()
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], rows.schema)


def _to_ipc(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        # a slice of a list or a map would carry the values of all rows
        writer.write_batch(batch.take(pa.array([0])))
    return bytes(sink.getvalue())


def _from_ipc(data: bytes) -> pa.RecordBatch:
    """The row in an Arrow IPC stream. Raises Corrupt, or what Arrow raises for other bytes."""
    STAGED_ROWS.check(data)
    with pa.ipc.open_stream(data) as reader:
        check_plain(reader.schema)
        batch = reader.read_next_batch()
    batch.validate(full=True)
    if batch.num_rows != 1:
        raise Corrupt(f"the value holds {batch.num_rows} rows, expected one")
    return batch


def _renamed(batch: pa.RecordBatch, number: int | None, table: DynamicTable) -> pa.RecordBatch:
    """A row with the present names of the columns of its writer; without those that were dropped."""
    if number == table.schema.id:
        return batch
    names = {field.id: field.name for field in table.schema.fields}
    present = {field.name: names.get(field.id) for field in RecordSchemas(table).of(number).fields}
    kept = [name for name in batch.schema.names if present.get(name, name) is not None]
    renamed = [present.get(name) or name for name in kept]
    if len({*renamed}) < len(renamed):
        raise Corrupt(f"two of its columns have one name by now: {', '.join(sorted(renamed))}")
    return batch.select(kept).rename_columns(renamed)


def _kind_of(value: bytes, number: int | None, table: DynamicTable) -> str:
    """The row kind of a rejected row; that of an insertion for one without, or that cannot be read."""
    with contextlib.suppress(*MALFORMED):
        kinds = _kinds(_renamed(_from_ipc(value), number, table), table)
        return str(kinds[0]) if kinds else NAMES[INSERT]
    return NAMES[INSERT]


class UpdatePairs:
    """Holds back a -U at the end of a batch until its +U comes; one for a task that may reject rows."""

    def __init__(self, table: DynamicTable) -> None:
        self._table = table
        self._held: pa.RecordBatch | None = None

    def whole(self, batch: pa.RecordBatch, first: int) -> GivenRows:
        """The rows of a batch after the one that was held back; ``first`` is the number of the first of them.

        Raises InvalidSchema if the columns change within an update.
        """
        held, self._held, batch = self._held, None, plain_batch(batch)
        if held is not None:
            batch = self._joined(held, batch)
        source = GivenRows.of(batch, self._table, first)
        if not source.kinds or source.kinds[-1] != BEFORE:
            return source
        end = batch.num_rows - 1
        self._held = batch.slice(end)
        return GivenRows(source.batch.slice(0, end), source.kinds[:end], first, source.schema_id)

    def rest(self, first: int) -> GivenRows | None:
        """The row that is still held back at the end; None if there is none."""
        held, self._held = self._held, None
        return None if held is None else GivenRows.of(held, self._table, first)

    def _joined(self, first: pa.RecordBatch, batch: pa.RecordBatch) -> pa.RecordBatch:
        if first.schema == batch.schema:
            return pa.concat_batches([first, batch])
        try:
            both = pa.concat_tables(
                [pa.Table.from_batches([part]) for part in (first, batch)], promote_options="default"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as why:
            raise InvalidSchema(
                f"the columns of the rows for table {self._table.name} change between -U and +U of an update: {why}. "
                f"Write both with the same columns"
            ) from None
        return pa.concat_batches(both.to_batches())
