"""A copy of a log: the committed changes of a table, in their order, in a sink that keeps the position with them.

A copy is a tail. If it is a transactional one, no correction reaches the sink. Each transaction of the sink has some
rows and the position of the tail after them, so a copy that is killed at any moment continues with the next row.

A step of a running copy:

1. Collect the rows that the tail returns, for a moment or up to a maximum number.
2. Read the id of the newest schema. If it is another one, discard the rows and read them again with it. Their writer
   may have used its columns: a schema exists before the first row with it, so this finds out.
3. Commit rows and position to the sink.
4. Store the position with the table, as that of a named reader, so that the log keeps the rest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.io.clock import monotonic_s
from lakelog.options.notebook import NotebookView
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.table.log.position import LogPosition
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.tail.reader_needs import NamedProgress
from lakelog.table.tail.subscribe import Stop, follow, is_set
from lakelog.table.tail.tail import Tail, TailPosition

STARTS: Final = ("latest-full", "earliest", "latest")
"""The starts of a new copy."""
_MOST_ROWS: Final = 100_000
"""Number of rows above which a transaction ends."""
_MOST_BYTES: Final = 64 << 20
"""Bytes of its rows above which a transaction ends: it takes a few times as much memory."""
_LONGEST_S: Final = 0.1
"""Age of its first row at which a transaction ends, even if the tail has more rows."""
_REPORT_EVERY_S: Final = 1.0
_IDLE_S: Final = 3600.0
"""Interval at which an idle copy commits its position, so that the sink does not forget its writer."""


@dataclass(frozen=True)
class CopyProgress(NotebookView):
    """The rows that a copy has committed since its last report, and the log records that it has not read yet."""

    rows: int
    lag: int


class Sink(Protocol):
    """Where the rows of a copy go; for one process."""

    def commit(self, table: DynamicTable, batches: Sequence[pa.RecordBatch], position: str) -> None:
        """Stores rows of a table with its newest schema, and the position after them: both or none.

        The batches have the column ``_row_kind``; there may be none.
        """


def copy_log(scan: LogScan, sink: Sink, name: str, start: str, stop: Stop, is_new: bool) -> Iterator[CopyProgress]:
    """Copies without end, up to an event, or up to the current end of the log (``stop='latest'``).

    ``name`` is that of the reader that keeps the log. ``is_new`` is True if the sink has no position yet; ``start`` is
    its position, or one of ``STARTS``. Yields about once a second while rows arrive, and at the end. Raises
    OffsetExpired, TableReplaced, Unavailable, and the errors of the sink.
    """
    copy, position = _Copy(scan, sink, name, is_new), start
    while position:
        position = yield from copy.steps(position, stop)


@dataclass
class _Collected:
    """The rows of the next transaction, in order."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    since_s: float = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        self.since_s = self.since_s if self.batches else monotonic_s()
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.bytes += batch.nbytes

    @property
    def is_full(self) -> bool:
        """True if the transaction should end, but not between the old and the new row of an update."""
        is_large = self.rows >= _MOST_ROWS or self.bytes >= _MOST_BYTES
        is_due = is_large or monotonic_s() > self.since_s + _LONGEST_S
        return bool(self.rows) and is_due and self.batches[-1].column(ROW_KIND_COLUMN)[-1].as_py() != "-U"


class _Copy:
    """A copy in one process."""

    def __init__(self, scan: LogScan, sink: Sink, name: str, is_new: bool) -> None:
        self._scan, self._sink, self._name, self._is_new = scan, sink, name, is_new
        self._kept: NamedProgress | None = None
        self._first: Mapping[int, int] = {}
        self._committed_s, self._reported_s, self._unreported = monotonic_s(), monotonic_s(), 0
        self._position, self._committed = "", TailPosition(LogPosition({}))

    def steps(self, start: str, stop: Stop) -> Generator[CopyProgress, None, str]:
        """The steps with one schema; returns the position to continue with after an ALTER TABLE, "" at the end."""
        tail = follow(self._scan, start, stop)
        self._position, self._committed = tail.position, tail.reached
        if self._kept is None:
            self._kept = NamedProgress(self._scan.table, self._name, tail.reached.log)
        self._keep(tail)
        if self._is_new:
            self._commit(tail, _Collected())
            self._is_new = False
        # 1
        collected, is_ended = _Collected(), False
        while not is_ended:
            before = tail.reached
            try:
                batch = tail.step()
            except StopIteration:
                batch, is_ended = None, True
            except InvalidSchema:
                if self._is_altered():
                    return self._position
                raise
            if batch is not None:
                collected.add(batch)
            is_idle = batch is None and (is_ended or tail.reached == before)
            if collected.is_full or (is_idle and self._must_commit(tail, collected, is_ended)):
                # 2
                if self._is_altered():
                    return "" if is_set(stop) else self._position
                # 3
                self._commit(tail, collected)
                collected = _Collected()
            # 4
            self._keep(tail, is_ended)
            if is_ended or (self._unreported and monotonic_s() > self._reported_s + _REPORT_EVERY_S):
                yield self._progress(tail)
        return ""

    def _must_commit(self, tail: Tail, collected: _Collected, is_ended: bool) -> bool:
        """True if there are rows, or if the position has passed records without rows for so long that they expire.

        Also true after a long time without a commit.
        """
        idle_s = monotonic_s() - self._committed_s
        is_old = is_ended or idle_s > self._scan.location.note_every_s
        return bool(collected.rows) or (is_old and tail.reached != self._committed) or idle_s > _IDLE_S

    def _commit(self, tail: Tail, collected: _Collected) -> None:
        position = tail.position
        self._sink.commit(self._scan.table, collected.batches, position)
        self._position, self._committed, self._committed_s = position, tail.reached, monotonic_s()
        self._unreported += collected.rows

    def _is_altered(self) -> bool:
        """Takes the newest schema; True if it is another one."""
        newest = self._scan.table.with_newest_schema()
        is_other = newest is not self._scan.table
        if is_other:
            self._scan = replace(self._scan, table=newest)
        return is_other

    def _keep(self, tail: Tail, is_last: bool = False) -> None:
        """Stores the committed position, so that the log and its first snapshot stay."""
        assert self._kept is not None
        if tail.reached == self._committed:
            self._first = tail.needs
        self._kept.keep(self._committed.log, self._first, is_last)

    def _progress(self, tail: Tail) -> CopyProgress:
        offsets, ends = tail.reached.log.offsets, self._scan.reader.end_offsets()
        done = CopyProgress(self._unreported, sum(max(0, ends[b] - offsets.get(b, 0)) for b in ends))
        self._unreported, self._reported_s = 0, monotonic_s()
        return done
