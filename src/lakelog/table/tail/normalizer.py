"""Whole changes from an upsert log (``log.consumer.normalize``), from the log and the previous rows of a stream.

The state of a stream before a record is the last emitted row of each key. It follows from the log and the start of the
stream, so it can be rebuilt. Saved states avoid reading the log from the start. A micro-batch starts with the newest
saved state at or before it and reads the log from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.read.plan import Split
from lakelog.io.clock import monotonic_s
from lakelog.io.names import new_uuid
from lakelog.io.storage.confined import confined
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.merge.base import KIND_COLUMN
from lakelog.merge.keys import key_parts, sort_rows
from lakelog.merge.normalize import normalize
from lakelog.options.log import CHANGELOG_MODES, NORMALIZE
from lakelog.paimon.rows.row_kind import INSERT, NAMES, ROW_KIND_COLUMN, kinds_from_text
from lakelog.paimon.types.json_record import JsonRecord
from lakelog.paimon.types.null_rows import cast_rows
from lakelog.state.keyed_state import KeyedState, conformed, forget_old
from lakelog.table.log.partitions import by_log_partition, may_hold
from lakelog.table.log.record_schemas import converted
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.snapshot_switch import SnapshotPart

_SAVE_ROWS: Final = 50_000
_SAVE_S: Final = 10.0
"""Limits, in rows or seconds, after which state in memory is saved."""
_LOOKUP_ROWS: Final = 100_000
"""Number of rows per lookup in the state."""
_DELETE_INTERVAL_S: Final = 30.0
_ALIVE: Final = "alive"
_ALIVE_S: Final = 3600.0
STATE_KEPT_MS: Final = 30 * 24 * 3_600_000
"""Idle time of a stream after which orphan cleaning deletes its state."""


def normalizes(table: DynamicTable) -> bool:
    """True if this read makes whole changes of a log without before-images."""
    return table.schema.is_keyed and table.changelog_mode == "upsert" and table.options.need(NORMALIZE)


@dataclass(frozen=True)
class StreamOrigin(JsonRecord):
    """The owner of a state and the start of its stream: offsets by bucket, after the parts of any snapshot."""

    id: str
    offsets: Mapping[int, int]
    snapshot: int | None = None

    @staticmethod
    def new(offsets: Mapping[int, int], full: tuple[int, int] | None) -> StreamOrigin:
        """The origin of a stream that starts now."""
        return StreamOrigin(new_uuid(), dict(offsets), None if full is None or not full[0] else full[0])


@dataclass(frozen=True)
class Normalizer:
    """Converts the rows of a read, of all its buckets, to whole changes; picklable.

    ``scan`` sets the columns and records; omitted key columns are read additionally.
    """

    scan: LogScan

    def __getstate__(self) -> dict[str, Any]:
        return {"scan": self.scan}

    @cached_property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.scan.table.schema.primary_keys)

    @cached_property
    def read_scan(self) -> LogScan:
        """The read of the log with the key columns, and with all row kinds."""
        names = self.scan.data_schema.names
        columns = (*names, *(key for key in self.keys if key not in names))
        return replace(self.scan, table=self.scan.table.with_hints({CHANGELOG_MODES.key: "all-kinds"}), columns=columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the state: those of the read and ``_VALUE_KIND``."""
        fields = [pa.field(f.name, f.type) for f in self.read_scan.data_schema]
        return pa.schema([*fields, pa.field(KIND_COLUMN, pa.int8(), nullable=False)])

    def state(self, io: FileIO, directory: str, offset: int, durable: bool = True) -> KeyedState:
        """An empty state of a bucket."""
        columns = self.scan.schemas.own_id
        return KeyedState(
            io, directory, self.schema, self.keys, offset, durable, columns=columns, conform=self._conformed
        )

    def _conformed(self, block: pa.RecordBatch, columns: int | None) -> pa.RecordBatch:
        """A block of a saved state with the columns of this one, found by id if an ALTER TABLE changed their names."""
        written, table = self.scan.schemas.of(columns), self.scan.table.schema
        if written.id == table.id:
            return conformed(block, self.schema)
        names = self.schema.names[:-1]
        rows = converted(pa.Table.from_batches([block]), written, table, names)
        return pa.RecordBatch.from_arrays([c.combine_chunks() for c in rows.columns], schema=self.schema)

    def changes(self, state: KeyedState, rows: pa.RecordBatch) -> pa.Table:
        """The changes (schema of the scan) from decoded rows of the bucket; updates the state."""
        if not rows.num_rows:
            return self.scan.schema.empty_table()
        numbers = kinds_from_text(rows.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN)
        columns = [*(rows.column(name) for name in self.schema.names[:-1]), numbers]
        normalized = normalize(
            pa.RecordBatch.from_arrays(columns, schema=self.schema), self.keys, self.scan.data_schema.names, state.find
        )
        state.put(normalized.state)
        kinds = normalized.changes.column(KIND_COLUMN)
        changes = normalized.changes.select(self.scan.data_schema.names)
        names = pa.chunked_array([pa.array(NAMES).take(chunk) for chunk in kinds.chunks], pa.string())
        out = cast_rows(changes.append_column(ROW_KIND_COLUMN, names), self.scan.schema)
        if self.scan.table.options.need(CHANGELOG_MODES) == "append-only":
            return out.filter(pc.equal(out.column(ROW_KIND_COLUMN), "+I"))
        return out

    def fill(self, state: KeyedState, rows: Iterable[pa.RecordBatch]) -> None:
        """Adds rows of a snapshot to the state, which has none of their keys."""
        for batch in rows:
            if batch.num_rows:
                order = sort_rows(key_parts(batch, self.keys))
                kinds = pa.nulls(batch.num_rows, pa.int8()).fill_null(INSERT)
                columns = [*(batch.column(name) for name in self.schema.names[:-1]), kinds]
                state.put(pa.Table.from_arrays(columns, schema=self.schema).take(pa.array(order)))


class StreamStates:
    """The durable states of one stream, bucket by bucket (``<table>/lakelog/normalize/<stream>/<bucket>``).

    A process keeps the states that it has built; a task builds one, uses it and saves it. With ``local``, a directory
    of this machine, nothing is durable until ``keep``.
    """

    def __init__(self, normalizer: Normalizer, origin: StreamOrigin, local: str | None = None) -> None:
        self.normalizer, self.origin = normalizer, origin
        self._table = normalizer.scan.table
        self._durable_root = f"{self._table.path}/lakelog/normalize/{origin.id}"
        self._local = local
        self._held: dict[int, tuple[KeyedState, int, float]] = {}
        self._saved = dict(origin.offsets)
        self._deleted_at = self._reported = float("-inf")

    @property
    def saved(self) -> Mapping[int, int]:
        """Bucket → the offset of its newest save, from which a state is built again; that of the start without one."""
        return {**self._saved, **{bucket: state.saved for bucket, (state, _, _) in self._held.items()}}

    def changes(self, bucket: int, start: int, end: int, saves: bool = False) -> Iterator[pa.RecordBatch]:
        """The changes of the records with start ≤ offset < end, deterministic; ``saves`` the state after them.

        Raises the errors of ``LogScan.read``, and OffsetExpired if the log has lost records that no saved state has.
        """
        state, unsaved, since = self._at(bucket, start)
        read = 0
        for batch in _large(self.normalizer.read_scan.read(bucket, start, end)):
            read += batch.num_rows
            yield from (b for b in self.normalizer.changes(state, batch).to_batches() if b.num_rows)
        state.offset = end
        if saves:
            state.save()
            state.close()
        else:
            self._held[bucket] = (state, unsaved + read, since)

    def fill(self, bucket: int, splits: Iterable[Split]) -> None:
        """Saves the rows of the stream's first snapshot as the state at its origin."""
        state = self._empty(bucket)
        part = SnapshotPart(self._table, self.normalizer.read_scan.columns)
        for split in splits:
            if may_hold(self._table.schema, split, bucket):
                placed = (found for batch in part.read(split) for found in self._placed(split, batch))
                self.normalizer.fill(state, (rows for partition, rows in placed if partition == bucket))
        state.save()
        state.close()

    def take(self, split: Split, rows: pa.RecordBatch) -> None:
        """Adds rows of the stream's first snapshot. Called by a reader that reads all of it, row after row."""
        for bucket, part in self._placed(split, rows):
            if bucket not in self._held:
                self._held[bucket] = (self._empty(bucket), 0, monotonic_s())
            self.normalizer.fill(self._held[bucket][0], [part])

    def _placed(self, split: Split, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        return by_log_partition(rows, self._table.schema, split.bucket, split.total_buckets)

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Builds the states before these records, except those of ``take``. Raises the errors of ``changes``."""
        for bucket, offset in offsets.items():
            if bucket not in self._held:
                self._held[bucket] = self._at(bucket, offset)

    def fold(self, bucket: int, rows: pa.Table) -> pa.Table:
        """The changes from decoded rows of the next records. Called after ``begin``."""
        state, unsaved, since = self._held[bucket]
        self._held[bucket] = (state, unsaved + rows.num_rows, since if unsaved else monotonic_s())
        if not rows.num_rows:
            return self.normalizer.scan.schema.empty_table()
        return self.normalizer.changes(state, rows.combine_chunks().to_batches()[0])

    def advance_to(self, bucket: int, offset: int) -> None:
        """Records that all earlier records are folded; a state is saved only at such an offset."""
        self._held[bucket][0].offset = offset

    def keep(self) -> None:
        """Makes local states durable; does nothing if they are."""
        if self._local is None:
            return
        self._local = None
        for bucket, (state, _, _) in self._held.items():
            kept = self._empty(bucket)
            state.copy_to(kept)
            state.close()
            self._held[bucket] = (kept, 1, float("-inf"))

    def close(self) -> None:
        """Closes the files, without saving."""
        self._saved = dict(self.saved)
        for state, _, _ in self._held.values():
            state.close()
        self._held.clear()

    def save_old(self) -> None:
        """Saves states that are old or large in memory, and the offsets of passed records without rows.

        Called whenever Spark requests a micro-batch.

        At intervals it records that the stream is active, so that its states are not deleted.
        """
        if monotonic_s() > self._reported + _ALIVE_S:
            self._reported = monotonic_s()
            self._table.io.write(f"{self._durable_root}/{_ALIVE}", b"")
        without_rows = self.normalizer.scan.location.note_every_s  # the passed records may expire
        for bucket, (state, unsaved, since) in self._held.items():
            due = since + (_SAVE_S if unsaved else without_rows)
            if (unsaved or state.has_moved) and (unsaved >= _SAVE_ROWS or monotonic_s() > due):
                state.save()
                self._held[bucket] = (state, 0, monotonic_s())

    def save(self) -> None:
        """Saves the state in memory, and all of a stream that began with a snapshot, which may expire."""
        self.keep()
        for bucket, (state, unsaved, _) in self._held.items():
            if unsaved or state.has_moved or self.origin.snapshot is not None:
                state.save()
                self._held[bucket] = (state, 0, monotonic_s())

    def save_all(self) -> None:
        """Saves the state in memory, and closes the files. Called when the stream stops."""
        self.save()
        self.close()

    def delete_old_saves(self, offsets: Mapping[int, int]) -> None:
        """At intervals, deletes saves that a stream at these offsets never reads again."""
        if monotonic_s() > self._deleted_at + _DELETE_INTERVAL_S:
            self._deleted_at = monotonic_s()
            for bucket, offset in offsets.items():
                forget_old(self._table.io, self._directory(bucket), offset)

    def _directory(self, bucket: int) -> str:
        return f"{self._durable_root if self._local is None else self._local}/{bucket}"

    def _empty(self, bucket: int) -> KeyedState:
        io = self._table.io if self._local is None else confined(LocalFileIO(), self._local)
        offset = self.origin.offsets.get(bucket, 0)
        return self.normalizer.state(io, self._directory(bucket), offset, self._local is None)

    def _at(self, bucket: int, offset: int) -> tuple[KeyedState, int, float]:
        """The state before a record, the number of its unsaved rows, and the time of the first of them."""
        rows = self._held.pop(bucket, None)
        if rows is not None and rows[0].offset == offset:
            return rows
        if rows is not None:
            rows[0].close()
        state = self._empty(bucket)
        if not state.load(offset) and self.origin.snapshot is not None:
            part = SnapshotPart(self._table, self.normalizer.read_scan.columns)
            self.fill(bucket, part.splits(self.origin.snapshot))
            state.load(offset)
        read = 0
        if state.offset < offset:
            start = self.normalizer.read_scan.available_offsets({bucket: state.offset})[bucket]
            for batch in _large(self.normalizer.read_scan.read(bucket, start, offset)):
                self.normalizer.changes(state, batch)
                read += batch.num_rows
            state.offset = offset
        return state, read, monotonic_s()


def _large(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, because each batch is looked up in the whole state."""
    batches_of_part: list[pa.RecordBatch] = []
    row_count = 0
    for batch in batches:
        batches_of_part.append(batch)
        row_count += batch.num_rows
        if row_count >= _LOOKUP_ROWS:
            yield pa.concat_batches(batches_of_part)
            batches_of_part, row_count = [], 0
    if batches_of_part:
        yield pa.concat_batches(batches_of_part)


def forget_streams(table: DynamicTable) -> None:
    """Removes the states of streams that have not run for ``STATE_KEPT_MS``. Called by orphan cleaning."""
    root = f"{table.path}/lakelog/normalize"
    streams = table.io.list(root)
    limit = storage_now_ms(table.io, table.path) - STATE_KEPT_MS if streams else 0
    for stream in streams:
        if any(s.name == _ALIVE and s.mtime_ms < limit for s in table.io.list(stream.path)):
            table.io.delete_dir(stream.path)
