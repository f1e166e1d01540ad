"""The committed rows of a log, at the records that commit them, for transactional readers.

A commit record has the attempts of an epoch that count and the start of their rows in its bucket. A reader of that
record finds the rows by reading back. No state is kept between two reads. The rows that a part of the log makes visible
depend on the log alone, regardless of the boundaries of parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import OffsetExpired
from lakelog.logstore.base import LogReader
from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.control_records import Commit, commits_in
from lakelog.logstore.protocol.header import ABORT, COMMIT, are_of_attempts, are_unowned, parse_kinds
from lakelog.options.log import EXPIRED_OFFSETS
from lakelog.table.log.position import SnapshotCutover
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_state import LogState


class Region(Protocol):
    """A part of the log that can be iterated more than once."""

    def __call__(self) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class VisibleBatch:
    """Data records that become visible at the records start ≤ offset < end of their bucket, in read order.

    A read of exactly these returns the same batch again. Records below ``first`` precede this part, and others follow
    it unless it ``is_whole``.
    """

    records: pa.Table
    start: int
    end: int
    first: int = 0
    is_whole: bool = True

    @property
    def next(self) -> int:
        """The offset after its last record."""
        return last_offset(self.records) + 1


@dataclass(frozen=True)
class CommittedReader:
    """Finds the visible rows of one log. It buffers at most ``most`` records, plus the input records.

    ``table_name`` and ``expired`` (``scan.expired-offsets``) are for rows that have expired from the log.
    """

    reader: LogReader
    most: int
    switch: SnapshotCutover | None = None
    table_name: str = ""
    expired: str = "error"

    def shown(self, bucket: int, records: pa.Table) -> Iterator[pa.Table]:
        """The data records that these records (RECORDS_SCHEMA, of one bucket) make visible, in order, in parts.

        The rows of an epoch appear at its first commit record. Rows without a writer belong to no epoch, are never
        taken back, and appear at their own offset. Raises OffsetExpired, Unavailable.
        """
        return (part.records for part in self.parts(bucket, records))

    def parts(self, bucket: int, records: pa.Table) -> Iterator[VisibleBatch]:
        """The same as ``shown``, with the origin of each part. For readers that may stop after any part."""
        commits = [self._counting(bucket, commit) for commit in commits_in(records)]
        unowned = self._unowned(bucket, records)
        offsets = records.column("offset").to_numpy()
        done, start = 0, int(offsets[0]) if len(offsets) else 0
        for run in _runs([c for c in commits if c.attempts], offsets[unowned]):
            at, end, first = run[0].offset, run[-1].offset + 1, 0
            before = int(np.searchsorted(offsets, at))
            for rows in _chosen(records.slice(done, before - done), unowned[done:before]):
                yield VisibleBatch(rows, start, at)
            for rows in self._rows_of(bucket, records, run):
                part = VisibleBatch(rows, at, end, first, is_whole=False)
                first = part.next
                yield part
            done, start = before, end
        for rows in _chosen(records.slice(done), unowned[done:]):
            yield VisibleBatch(rows, start, last_offset(records) + 1)

    def _counting(self, bucket: int, commit: Commit) -> Commit:
        return commit if self.switch is None else self.switch.counting(bucket, commit)

    def _unowned(self, bucket: int, records: pa.Table) -> np.ndarray:
        out: np.ndarray = are_unowned(records.column("header")).to_numpy()
        if self.switch is not None:
            first = self.switch.unowned.get(bucket, self.switch.ends.get(bucket, 0))
            out = out & (records.column("offset").to_numpy() >= first)
        return out

    def _rows_of(self, bucket: int, records: pa.Table, run: list[Commit]) -> Iterator[pa.Table]:
        """The rows of one writer's epochs, which are consecutive in the log, before their commit records."""
        region = self._region(bucket, min(c.first for c in run), run[-1].offset, records)
        counting = self._first_of_epoch(region, run)
        if not counting:
            return
        attempts = set().union(*(commit.data_attempts() for commit in counting))
        for part in region():
            yield from _chosen(part, are_of_attempts(part.column("header"), attempts))

    def _first_of_epoch(self, region: Region, run: list[Commit]) -> list[Commit]:
        """The commit records that are the first of their epoch; two processes may have written one each."""
        first: dict[tuple[str, int], int] = {}
        for part in region():
            for commit in commits_in(part):
                first.setdefault((commit.writer, commit.epoch), commit.offset)
        return [c for c in run if first.get((c.writer, c.epoch)) == c.offset]  # none: a reader has continued after it

    def _region(self, bucket: int, first: int, last: int, records: pa.Table) -> Region:
        """The log from ``first`` to ``last``, which is one of the records; buffered if it is short."""
        offsets = records.column("offset").to_numpy()
        here = int(offsets[0])
        if self.switch is not None:
            first = max(first, self.switch.floor.get(bucket, 0))
        start, end = np.searchsorted(offsets, (first, last + 1))
        tail = records.slice(int(start), int(end - start))
        if first >= here:
            return lambda: iter([tail])
        head, first = self._read_from(bucket, first, here)
        behind = head.column("offset")[-1].as_py() + 1 if head.num_rows else here
        # offsets do not give the number of records, and large ones end a read sooner
        if head.num_rows < self.most and (behind >= here or not self.reader.read(bucket, behind, here, 1).num_rows):
            return lambda: iter([head, tail])

        def long() -> Iterator[pa.Table]:
            yield from self.reader.chunks(bucket, first, here, self.most)
            yield tail

        return long

    def _read_from(self, bucket: int, first: int, end: int) -> tuple[pa.Table, int]:
        """The first records of first ≤ offset < end, and their start; expired records may be skipped."""
        try:
            return self.reader.read(bucket, first, end, self.most), first
        except OffsetExpired:
            held = self.reader.first_offsets([bucket])[bucket]
            if self.expired != "earliest":
                raise OffsetExpired(
                    f"an epoch committed at or after offset {end} in bucket {bucket} of the log of table "
                    f"{self.table_name} starts at offset {first}, which has expired; the first offset is {held}. "
                    f"Restart from the newest snapshot ('{EXPIRED_OFFSETS.key}'='latest-full'), or skip the rows in "
                    f"between ('{EXPIRED_OFFSETS.key}'='earliest')"
                ) from None
            return self.reader.read(bucket, held, end, self.most), held


def _runs(commits: list[Commit], unowned: np.ndarray) -> Iterator[list[Commit]]:
    """Consecutive commit records of one writer, with no writerless row between them."""
    run: list[Commit] = []
    for commit in commits:
        if run and (commit.writer != run[-1].writer or _has(unowned, run[-1].offset, commit.offset)):
            yield run
            run = []
        run.append(commit)
    if run:
        yield run


def _has(offsets: np.ndarray, start: int, end: int) -> bool:
    return bool(np.searchsorted(offsets, start) < np.searchsorted(offsets, end))


def last_offset(records: pa.Table) -> int:
    """The offset of the last of some records."""
    last: int = records.column("offset")[records.num_rows - 1].as_py()
    return last


def _chosen(records: pa.Table, mask: np.ndarray) -> Iterator[pa.Table]:
    if mask.any():
        yield records if mask.all() else records.filter(pa.array(mask))


def only_control_records_expired(table: DynamicTable, state: LogState, bucket: int, offset: int) -> bool:
    """True if a table's log has lost only control records of sealed epochs from an offset on.

    Called if that offset has expired; ``state`` is that of a snapshot. This is the case in an idle table, whose newest
    commit records follow the offsets that its last seal verified. The function counts them. Nothing else was lost if
    the number of expired entries equals the number of such records, less those still in the log. Returns False if this
    is unknown: the offset precedes the snapshot's, a seal has markers to append, or the log cannot count its losses.
    Raises Unavailable, OffsetExpired if more expires in the meantime.
    """
    known = state.offsets.get(bucket, -1)
    if table.log is None or not 0 <= known <= offset or _lacks_markers(table, state):
        return False
    reader = reader_for(table.log)
    end = reader.end_offsets([bucket])[bucket]  # read after the check for missing markers, so all markers precede it
    first = reader.first_offsets([bucket])[bucket]
    lost, markers = reader.entries(bucket, known, first), state.markers.get(bucket, 0)
    if lost is None or lost > markers:
        return False
    return lost == markers - sum(_control_records(records) for records in reader.chunks(bucket, first, end))


def _control_records(records: pa.Table) -> int:
    kinds = parse_kinds(records.column("header"))
    return int(pc.sum(pc.is_in(kinds, pa.array([COMMIT, ABORT]))).as_py() or 0)


def _lacks_markers(table: DynamicTable, state: LogState) -> bool:
    """True if control records of sealed epochs may be missing; epoch records are deleted after their markers."""
    return any(state.holds(record) for record in table.decided.all())
