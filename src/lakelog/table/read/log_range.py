"""A batch read of a range of the log: its changes, or the rows that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest, NotFound
from lakelog.filestore.read.plan import Split
from lakelog.filestore.write.memtable import Memtable
from lakelog.logstore.protocol.header import CORRECTION
from lakelog.merge import merge_engine
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, Indices, MergeEngine, Piece
from lakelog.options.log import CHANGELOG_MODES, EXPIRED_OFFSETS, READ_MODE, STARTUP_MODE
from lakelog.options.table import WRITE_BUFFER_SIZE
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.rows.row_kind import INSERT, ROW_KIND_COLUMN, UPDATE_AFTER, kinds_from_text
from lakelog.paimon.schema.schema import TableSchema
from lakelog.table.log.position import LogPosition, SnapshotCutover, headers_of
from lakelog.table.log.row_hashes import row_hashes
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.base import TableScan, chosen
from lakelog.table.read.changes_scan import with_row_kind
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.snapshot_switch import SnapshotPart, check_log_hints, latest_full, start_position
from lakelog.table.read.union_scan import union_scan
from lakelog.table.read.unsealed_rows import taken_back

_LATEST_FULL: Final = "latest-full"
_MOST_BUFFER: Final = 64 << 20
_ADDED: Final = pa.array([INSERT, UPDATE_AFTER], pa.int8())
_HASHES: Final = ("_lakelog_hash_a", "_lakelog_hash_b")


@dataclass(frozen=True)
class LogPart:
    """The records of one log partition in the range; picklable. ``switch`` skips those that a snapshot contains."""

    bucket: int
    start: int
    end: int
    switch: SnapshotCutover | None = None


@dataclass(frozen=True, repr=False)
class LogRangeScan(TableScan):
    """The log from the start position of the options to its end at the time of the plan.

    With ``_row_kind`` among its columns or in its filter it has the changes, as the log has them. Without, it has the
    rows that they add up to: the newest row of each key, and without a key all rows that no later retraction removes.
    A retraction of a row from before the range removes nothing. Rows of undecided epochs are among them, as for every
    reader of the log. With ``log.consumer.changelog.modes`` = append-only nothing is netted.
    """

    @property
    def row_schema(self) -> TableSchema:
        """The table's columns and ``_row_kind``."""
        return with_row_kind(self.table.schema)

    @cached_property
    def _is_netted(self) -> bool:
        named = {*self.schema.names, *(self.filter.columns if self.filter else ())}
        return ROW_KIND_COLUMN not in named and self.table.options.need(CHANGELOG_MODES) != "append-only"

    @property
    def _current(self) -> Scan:
        """The rows that a snapshot and the log after it add up to: the current ones."""
        return replace(
            Scan(self.table) if self.table.publishes else union_scan(self.table),
            columns=tuple(self.schema.names),
            filter=self.filter,
        )

    @property
    def _start(self) -> str:
        options = self.table.options
        named = any(key in options for key in (STARTUP_MODE.key, *STARTUP_MODE.aliases))
        return options.need(STARTUP_MODE) if named else _LATEST_FULL

    def plan(self) -> Sequence[LogPart | Split]:
        """One part per log partition, and those of a first snapshot.

        Raises InvalidOption for an option that only a read of files can follow, OffsetExpired, Unavailable.
        """
        check_log_hints(self.table)
        if self._is_netted and self._start == _LATEST_FULL:
            return self._current.plan()
        scan = LogScan(self.table)
        with self.table.explained():
            try:
                position = start_position(scan, None if self._start != _LATEST_FULL else _LATEST_FULL)
                starts = scan.available_offsets(position.offsets)
            except NotFound:  # records of the log
                if self.table.options.need(EXPIRED_OFFSETS) != _LATEST_FULL:
                    raise
                position = latest_full(self.table)
                starts = dict(position.offsets)
            ends = scan.reader.end_offsets()
        parts = [LogPart(b, start, ends[b], position.switch) for b, start in starts.items() if start < ends[b]]
        return [*self._first_rows(position), *parts]

    def _first_rows(self, position: LogPosition) -> Sequence[Split]:
        has_snapshot = position.full is not None and position.full[0] != 0
        return SnapshotPart(self.table).splits(position.full[0]) if position.full and has_snapshot else ()

    def read(self, split: LogPart | Split) -> Iterator[pa.RecordBatch]:
        """The rows of one part; called on executors too."""
        if self._is_netted and not isinstance(split, LogPart):
            yield from self._current.read(split)
            return
        needed = {*self.schema.names, *(self.filter.columns if self.filter else ())} - {ROW_KIND_COLUMN}
        columns = tuple(name for name in self.table.schema.field_names if name in needed)
        if isinstance(split, LogPart):
            rows = self._net(split, columns) if self._is_netted else self._changes(split, columns)
        else:
            rows = SnapshotPart(self.table, columns).read(split)
        for batch in rows:
            yield from chosen(batch, self.schema, self.filter)

    def _changes(self, part: LogPart, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return LogScan(self.table, columns, part.switch).read(part.bucket, part.start, part.end)

    def _net(self, part: LogPart, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows that the changes of a log partition add up to, sorted in a memtable."""
        schema = self.table.schema
        engine: MergeEngine
        if schema.is_keyed:
            # the order of the log says which row is the newest, and its deletes count
            keys, engine = schema.primary_keys, merge_engine("deduplicate", replace(schema, options={}))
            batches: Iterable[pa.RecordBatch] = self._changes(part, _with(columns, keys))
        else:
            keys, engine = _HASHES, Multiset(schema)
            batches = map(self._hashed, self._accepted(part))
        memtable = Memtable(keys, engine, min(int(self.table.options.need(WRITE_BUFFER_SIZE)), _MOST_BUFFER))
        try:
            number = 0
            for batch in batches:
                memtable.add(_numbered(batch, (*columns, *keys), number))
                number += batch.num_rows
            for batch in memtable.sorted_batches():
                yield batch.filter(pc.is_in(batch.column(KIND_COLUMN), _ADDED)).select(columns)
        finally:
            memtable.close()

    def _accepted(self, part: LogPart) -> Iterator[pa.RecordBatch]:
        """The changes of a log without keys, less the records that later ones take back, and these corrections.

        A deletion that is taken back beside a second attempt of it would restore the row that the second one deletes.
        """
        scan = LogScan(self.table, tuple(self.table.schema.field_names), part.switch)
        if scan.is_transactional or part.switch is not None:  # they leave such records out themselves
            yield from scan.read(part.bucket, part.start, part.end)
            return
        bounds = (part.bucket, part.start, part.end)
        undone = pa.array(sorted(taken_back(scan.records_between(*bounds))), pa.int64())
        for records in scan.records_between(*bounds):
            heads = headers_of(records)
            corrects = (heads["kind"] == CORRECTION) & (heads["ref"] >= part.start)
            is_undone = pc.or_(
                pc.is_in(records.column("offset"), undone), pa.array(corrects.fill_null(False).to_numpy())
            )
            yield from scan.decode(records.filter(pc.invert(is_undone)), part.bucket).to_batches()

    def _hashed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        hashes = row_hashes(self.table.schema, rows)
        for name, column in zip(_HASHES, hashes.columns, strict=True):
            rows = rows.append_column(name, hashes[column].reinterpret(signed=True).to_arrow())
        return rows

    def _facts(self) -> Mapping[str, object]:
        return {**super()._facts(), "range": f"{self._start} to the end of the log"}


def _with(columns: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    return (*columns, *(name for name in more if name not in columns))


def _numbered(rows: pa.RecordBatch, columns: Sequence[str], first: int) -> pa.Table:
    """Rows of the log with the system columns of the files, numbered from ``first``."""
    names = list(dict.fromkeys(columns))
    kinds = kinds_from_text(rows.column(ROW_KIND_COLUMN), ROW_KIND_COLUMN)
    numbers = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    return pa.Table.from_arrays([*rows.select(names).columns, numbers, kinds], [*names, SEQUENCE_COLUMN, KIND_COLUMN])


def log_range_scan(table: DynamicTable, snapshot: Snapshot | None = None) -> LogRangeScan:
    """The batch read of a table's log. Raises InvalidRequest for a table without a log, and with time travel."""
    if snapshot is not None:
        raise InvalidRequest(
            f"'{READ_MODE.key}'='log' of table {table.name} has no snapshots: set its start by '{STARTUP_MODE.key}', "
            f"or read the files ('{READ_MODE.key}'='file')"
        )
    LogScan(table).location  # noqa: B018 - raises for a table without a log
    return LogRangeScan(table)


class Multiset(MergeEngine):
    """Keeps the rows that no later retraction removes; the keys of its pieces tell equal rows from others.

    A retraction without an equal row before it removes nothing. Used by reads only.
    """

    def fold(self, piece: Piece) -> pa.Table:
        adds = np.isin(piece.numbers(KIND_COLUMN), (INSERT, UPDATE_AFTER))
        signs = np.where(adds, 1, -1)
        sums = np.cumsum(signs)
        before = (sums - signs)[piece.starts]
        lowest = np.minimum.reduceat(sums, piece.starts) - before
        left = sums[piece.newest] - before - np.minimum(lowest, 0)
        added = np.cumsum(adds)
        rank: Indices = added - np.repeat((added - adds)[piece.starts], piece.sizes)
        return piece.rows_at(np.flatnonzero(adds & (rank <= np.repeat(left, piece.sizes))))
