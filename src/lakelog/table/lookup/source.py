"""The sources of a lookup join's index: a full snapshot, then changes from the log or newer snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, NotFound
from lakelog.filestore.read.changes import DELTA, DIFF, AnyChange, Changes, ChangeSplit
from lakelog.filestore.read.plan import Split, skips_level_zero
from lakelog.filestore.read.split_reader import engine_of
from lakelog.filestore.skipping.pruning import Pruning
from lakelog.merge.base import Indices, Mask
from lakelog.merge.keys import Part, key_parts, key_starts, sort_rows, taken
from lakelog.options.log import CHANGELOG_MODES, CONSISTENCY_GUARANTEE
from lakelog.options.lookup import LOOKUP_SHUFFLE, LOOKUP_SOURCE
from lakelog.options.retention import RECORD_EXPIRE_TIME
from lakelog.paimon.metadata.snapshot import APPEND, OVERWRITE, Snapshot
from lakelog.paimon.schema.schema import POSTPONE_BUCKET
from lakelog.state.sorted_run import spread
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.changes_scan import plan_changes, read_change
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.snapshot_switch import SnapshotPart, latest_full


class LookupSource(ABC):
    """The rows of one bucket of a keyed table (None: of all), and then their changes. For one thread.

    The rows of a key arrive in commit order. A change may arrive twice, with all that follow it.
    """

    def __init__(self, table: DynamicTable, columns: tuple[str, ...], bucket: int | None) -> None:
        self.table, self.columns, self.bucket = table, columns, bucket

    @abstractmethod
    def begin(self) -> Iterator[pa.RecordBatch]:
        """All rows of the newest snapshot; ``changes`` continues after it.

        Raises NotFound if the snapshot expires in the meantime.
        """

    @abstractmethod
    def changes(self) -> Iterator[pa.RecordBatch]:
        """The changes up to now, with ``_row_kind``; the next call resumes there once all batches are consumed.

        Raises NotFound if the next changes have expired, or the table was rolled back; then restart with ``begin``.
        """

    def own(self, splits: Iterable[Split]) -> Iterator[Split]:
        """The splits of the bucket. Raises InvalidRequest if the bucket number does not determine its rows."""
        total = self.table.schema.num_buckets
        for split in splits:
            if self.bucket is not None and split.total_buckets != total:
                raise InvalidRequest(
                    f"table {self.table.name} has partitions of {split.total_buckets} buckets, and its rows are looked "
                    f"up by the bucket of {total}: start the query again with '{LOOKUP_SHUFFLE.key}'='none'"
                )
            if self.bucket in (None, split.bucket):
                yield split


class LogSource(LookupSource):
    """Reads changes from the log, starting exactly after the snapshot (``table.read.snapshot_switch``)."""

    def __init__(self, table: DynamicTable, columns: tuple[str, ...], bucket: int | None) -> None:
        whole = {CHANGELOG_MODES.key: "all-kinds", CONSISTENCY_GUARANTEE.key: "true"}
        super().__init__(table.with_hints(whole), columns, bucket)
        self._scan = LogScan(self.table, columns)
        self._offsets: dict[int, int] = {}

    def begin(self) -> Iterator[pa.RecordBatch]:
        position = latest_full(self.table)
        self._scan = replace(self._scan, switch=position.switch)
        self._offsets = {b: o for b, o in position.offsets.items() if self.bucket in (None, b)}
        if position.full is not None and position.full[0]:
            part = SnapshotPart(self.table, self.columns)
            for split in self.own(part.splits(position.full[0])):
                for batch in part.read(split):
                    yield batch.select(list(self.columns))

    def changes(self) -> Iterator[pa.RecordBatch]:
        ends = self._scan.reader.end_offsets(list(self._offsets))
        for bucket, start in self._offsets.items():
            if start < ends[bucket]:
                yield from self._scan.read(bucket, start, ends[bucket])
                self._offsets[bucket] = ends[bucket]


class FileSource(LookupSource):
    """Reads changes from new snapshots: their added rows if these are the newest of their keys.

    Otherwise it compares two states.
    """

    def __init__(self, table: DynamicTable, columns: tuple[str, ...], bucket: int | None) -> None:
        super().__init__(table, columns, bucket)
        self._at: Snapshot | None = None
        options = table.options
        self._adds_newest = (
            engine_of(table.schema).number_decides
            and options.get_typed(RECORD_EXPIRE_TIME) is None
            and not skips_level_zero(table.schema)
            and table.schema.num_buckets != POSTPONE_BUCKET
        )

    def begin(self) -> Iterator[pa.RecordBatch]:
        newest = self.table.store.latest_snapshot()
        self._check_buckets(newest)
        if newest is not None:
            scan = Scan(self.table, self.columns, snapshot=newest)
            for split in self.own(scan.plan()):
                yield from scan.read(split)
        self._at = newest

    def changes(self) -> Iterator[pa.RecordBatch]:
        store = self.table.store
        newest = store.latest_snapshot()
        if newest is None and self._at is None:
            return
        if newest is None or (self._at is not None and store.snapshot(self._at.id) != self._at):
            raise NotFound(f"table {self.table.name} was rolled back or recreated")
        self._check_buckets(newest)
        for split in self._splits(newest):
            if self.bucket in (None, split.bucket):
                yield from read_change(store, split, self.columns, None, True)
        self._at = newest

    def _splits(self, newest: Snapshot) -> Iterator[AnyChange]:
        store, first = self.table.store, 0 if self._at is None else self._at.id
        between = [store.change_history.get(number) for number in range(first + 1, newest.id + 1)]
        if not self._adds_newest or any(snapshot.commit_kind == OVERWRITE for snapshot in between):
            yield from plan_changes(store, first, newest, DIFF, None)
            return
        changes = Changes(store.manifests, store.schema, Pruning(store.schemas, None))
        for snapshot in between:
            if snapshot.commit_kind == APPEND:
                yield from (_by_age(split) for split in changes.of_snapshot(snapshot, DELTA))

    def _check_buckets(self, newest: Snapshot | None) -> None:
        """Raises InvalidRequest if the table's number of buckets has changed since the query was planned."""
        if self.bucket is None or newest is None or newest.schema_id == self.table.schema.id:
            return
        now, before = self.table.store.schemas.get(newest.schema_id).num_buckets, self.table.schema.num_buckets
        if now != before:
            raise InvalidRequest(
                f"table {self.table.name} has {now} buckets now, and had {before} when the lookup query started: "
                "restart the query"
            )


def _by_age(split: ChangeSplit) -> ChangeSplit:
    return replace(split, files=tuple(sorted(split.files, key=lambda file: file.min_sequence_number)))


def source_of(table: DynamicTable, columns: tuple[str, ...], bucket: int | None) -> LookupSource:
    """The source that the read options select. Raises InvalidRequest for the log of a table that has none."""
    wish = table.options.need(LOOKUP_SOURCE)
    if wish == "files" or (wish == "auto" and table.log is None):
        return FileSource(table, columns, bucket)
    return LogSource(table, columns, bucket)


Find = Callable[[Sequence[Part]], tuple[Indices, pa.Table]]
"""Sorted unique keys → the position of each found row's key, in order, and the rows."""


@dataclass(frozen=True)
class Matches:
    """Pairs of a probing row and its match: ``left`` ascending, ``right`` rows of ``rows``."""

    left: Indices
    right: Indices
    rows: pa.Table

    def with_missing(self, wanted: Indices) -> Matches:
        """The pairs, plus a pair with -1 on the right for each row of ``wanted`` without a match."""
        alone = np.setdiff1d(wanted, self.left)
        left = np.concatenate([self.left, alone])
        right = np.concatenate([self.right, np.full(len(alone), -1)])
        order = np.argsort(left, kind="stable")
        return Matches(left[order], right[order], self.rows)

    def right_rows(self) -> pa.Table:
        """The matched row of each pair; NULL in all columns if there is none."""
        at = pa.array(self.right, mask=self.right < 0)
        columns = [self.rows.column(name).take(at) for name in self.rows.column_names]
        schema = pa.schema([field.with_nullable(True) for field in self.rows.schema])
        return pa.Table.from_arrays(columns, schema=schema)


def find_matches(keys: pa.RecordBatch, schema: pa.Schema, wanted: Indices, find: Find, empty: pa.Table) -> Matches:
    """The matches of some rows (numbers, ascending) of a batch of key columns; a key with a NULL has none.

    The columns are in the order of ``schema``, whose types the index has. A value that this type cannot hold has no
    match either. ``empty`` is the result of ``find`` for no key.
    """
    columns = [_exact(column.take(pa.array(wanted)), f.type) for column, f in zip(keys.columns, schema, strict=True)]
    valid = _has_no_null(columns, len(wanted))
    asking = wanted[valid]
    if not len(asking):
        return Matches(asking, asking, empty)
    kept = [column if valid.all() else column.filter(pa.array(valid)) for column in columns]
    parts = key_parts(pa.RecordBatch.from_arrays(kept, schema=_nullable(schema)), schema.names)
    order = sort_rows(parts)
    starts = key_starts(parts, order)
    positions, rows = find([taken(part, order[starts]) for part in parts])
    keys_of = np.empty(len(order), dtype=np.int64)
    keys_of[order] = np.cumsum(starts) - 1
    first, end = (np.searchsorted(positions, keys_of, side) for side in ("left", "right"))
    return Matches(np.repeat(asking, end - first), spread(first, end), rows)


def merged(parts: Sequence[Matches]) -> Matches:
    """The pairs of several lookups of different rows."""
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(part.rows.num_rows for part in parts)])
    left = np.concatenate([part.left for part in parts])
    right = np.concatenate([part.right + shift for part, shift in zip(parts, shifts, strict=False)])
    order = np.argsort(left, kind="stable")
    return Matches(left[order], right[order], pa.concat_tables([part.rows for part in parts]))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _exact(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values in another type; NULL if it cannot represent exactly this value."""
    if column.type == kind:
        return column
    out = column.cast(kind, safe=False)
    if pa.types.is_temporal(kind) or pa.types.is_integer(kind):
        same = pc.equal(out.cast(column.type, safe=False), column)
        out = pc.if_else(same, out, pa.scalar(None, kind))
    return out


def missing(matches: Matches, wanted: Indices, keys: pa.RecordBatch) -> Indices:
    """The rows of ``wanted`` without a match that may have one later: those whose key has no NULL."""
    alone: Indices = np.setdiff1d(wanted, matches.left)
    return alone[_has_no_null(keys.columns, keys.num_rows)[alone]]


def _has_no_null(columns: Sequence[pa.Array], rows: int) -> Mask:
    valid: Mask = np.ones(rows, dtype=np.bool_)
    for column in columns:
        valid &= column.is_valid().to_numpy(zero_copy_only=False)
    return valid
