"""Streaming read of the log in Spark: small batches are sent with the plan, large ones are read by executors.

Spark supports two kinds of Python sources. A *simple* reader returns the rows during planning: no task, lowest latency,
one core. A *partitioned* reader assigns ranges to tasks: full throughput, one more hop. This reader decides per
micro-batch. It extends ``_SimpleStreamReaderWrapper``, the class by which Spark's runner recognises prefetched rows
(the same in 4.2 and 4.3; a test checks it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.errors import NotFound, OffsetExpired
from lakelog.filestore.read.plan import Split
from lakelog.io.clock import monotonic_s
from lakelog.options.log import EXPIRED_OFFSETS, MAX_ROWS_PER_TRIGGER
from lakelog.options.scan import CONSUMER_ID
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.sources import (
    InputPartition,
    PrefetchingReader,
    ReadAllAvailable,
    ReadLimit,
    ReadWhole,
    SupportsTriggerAvailableNow,
)
from lakelog.spark.runtime.types import arrow_for_spark, conform, has_null_elements
from lakelog.spark.runtime.worker import OwnErrors, prepare_worker
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.register import NamedReaders
from lakelog.table.log.row_limit import RowLimit
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_generation import LogWatch
from lakelog.table.read.snapshot_switch import SnapshotPart, latest_full, start_position

_PREFETCH_ROWS = 20_000
_PREFETCH_AT_LEAST = 24
"""Number of new rows, or of multi-row records, up to which they are read during planning; tasks read more."""
_PREFETCH_PACKS = 500
"""Number of multi-row records up to which they are read during planning if they hold few rows."""

PARTITION_ROWS = 200_000
"""Number of rows per task."""
_MOST_TASKS = 32
"""Maximum number of tasks for the multi-row records of a bucket, which may hold few rows."""

_POLL_S = 0.02
"""Maximum wait for the next record during planning before it reports no new data to Spark."""

_REPORT_EVERY_S = 1.0
"""Minimum interval between two position reports of a named reader."""

_INITIAL = "initial"
_FROM = "from"
"""Key of the start of the first micro-batch, stored in its end.

Spark keeps only the end of a micro-batch, and requests the initial offset again when it repeats the first one.
"""

Offsets = dict[int, int]


class LogRange(InputPartition):
    """Records of one bucket, start ≤ offset < end."""

    def __init__(self, bucket: int, start: int, end: int, switch: SnapshotCutover | None = None) -> None:
        super().__init__(bucket)
        self.bucket, self.start, self.end, self.switch = bucket, start, end, switch


class FullRange(InputPartition):
    """A part of a reader's first snapshot."""

    def __init__(self, split: Split) -> None:
        super().__init__(0)
        self.split = split


@dataclass(frozen=True)
class _Idle:
    """Records without rows, from ``begin``, the checkpoint, to ``seen``; known since ``since_s``."""

    begin: Offsets
    seen: Offsets
    since_s: float


class LakelogStreamReader(OwnErrors, PrefetchingReader, SupportsTriggerAvailableNow):
    """The source of a streaming query on a table's log.

    Its offsets are ``{"log": id, "offsets": {bucket: offset}}``. After a snapshot start (``latest-full``) they have
    ``"switch"``, too, and ``"full": [snapshot, part]`` until all parts are read. A micro-batch takes some parts, or
    records of the log. With ``consumer-id`` the reader reports its position to ``$log`` as batches are committed.
    """

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        super().__init__(self)  # type: ignore[arg-type]  # the base only asks whether it supports AvailableNow
        names = [n for n in schema.fieldNames() if n != ROW_KIND_COLUMN]
        self._scan = LogScan(table, tuple(names))
        self._part = SnapshotPart(table, tuple(names))
        self._splits: tuple[int, Sequence[Split]] = (0, ())
        self._target = arrow_for_spark(schema)
        self._most_rows = table.options.need(MAX_ROWS_PER_TRIGGER)
        self._limit = self._scan.records_of(self._most_rows)
        self._is_packed = self._scan.form.changes_per_record > 1
        self._prefetch = max(_PREFETCH_AT_LEAST, self._scan.records_of(_PREFETCH_ROWS))
        self._of_a_task = self._scan.records_of(PARTITION_ROWS)
        self._stop_at: Offsets | None = None
        self._idle: _Idle | None = None
        self._fetched: dict[str, list[pa.RecordBatch]] = {}
        self._reported = float("-inf")
        self._watch = LogWatch(self._scan.table)

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        return {**self._to_json(start_position(self._scan)), _INITIAL: True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = self._scan.reader.end_offsets()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        prepare_worker()
        position = self._from_json(start)
        try:
            with self._scan.table.explained():
                is_snapshot = position.full is not None
                end = self._next_part(position, limit) if is_snapshot else self._next_records(start, position)
                self._watch.check()
        except NotFound:  # the snapshot, or records of the log
            if self._scan.table.options.need(EXPIRED_OFFSETS) != "latest-full":
                raise
            end = self._restart()
        if end == start or _INITIAL not in start:
            return end
        return {**end, _FROM: {key: value for key, value in start.items() if key != _INITIAL}}

    def _restart(self) -> dict[str, object]:
        """The position at the newest snapshot, if the records after the old position have expired."""
        return self._to_json(latest_full(self._scan.table))

    def _next_part(self, position: LogPosition, limit: ReadLimit) -> dict[str, object]:
        """The parts of the snapshot for one micro-batch, by their row counts; with ``ReadWhole`` the log, too."""
        assert position.full is not None
        snapshot, part = position.full
        splits = self._parts_of(snapshot)
        rows = 0
        while part < len(splits) and rows < self._most_rows:
            rows += splits[part].row_count
            part += 1
        if part >= len(splits) and isinstance(limit, ReadWhole):
            return self._to_json(replace(position, full=None).at(self._end(dict(position.offsets))))
        return self._to_json(replace(position, full=(snapshot, part) if part < len(splits) else None))

    def _next_records(self, start: dict[str, object], position: LogPosition) -> dict[str, object]:
        begin = dict(position.offsets)
        seen = self._seen(begin)  # records without rows need not be read again
        end = self._end(seen)
        if all(end[b] <= seen[b] for b in begin):
            return self._passed(start, position)
        if self._is_small(seen, end):
            try:
                batches = self._fetch(position, seen, end)
            except OffsetExpired:
                batches = self._fetch(position, self._scan.available_offsets(seen), end)
            if batches == [] and self._stop_at is None and self._is_short(begin, end):
                known = self._idle if self._idle is not None and self._idle.begin == begin else None
                # not worth a micro-batch
                self._idle = _Idle(begin, end, monotonic_s() if known is None else known.since_s)
                return self._passed(start, position)
            if batches is None or any(has_null_elements(batch.columns) for batch in batches):
                self._fetched = {}  # tasks read them
            else:
                self._fetched = {self._key(begin, end): batches}
        return self._to_json(position.at(end))

    def _is_small(self, seen: Offsets, end: Offsets) -> bool:
        """True if the records are few enough to be read during planning."""
        most = max(self._prefetch, _PREFETCH_PACKS) if self._is_packed else self._prefetch
        count = sum(self._counts(seen, end, most).values())
        if count <= self._prefetch:
            return True
        limit = RowLimit(self._scan)
        return count <= most and all(limit.end(b, seen[b], end[b], _PREFETCH_ROWS // len(seen)) >= end[b] for b in seen)

    def _passed(self, start: dict[str, object], position: LogPosition) -> dict[str, object]:
        """The same position again; at intervals the end of records without rows, in a micro-batch without rows.

        Otherwise a checkpoint before such records would expire with them.
        """
        idle = self._idle
        if idle is None or idle.begin != position.offsets:
            return start
        if monotonic_s() < idle.since_s + self._scan.location.note_every_s:
            return start
        self._fetched = {self._key(idle.begin, idle.seen): []}
        return self._to_json(position.at(idle.seen))

    def _is_short(self, begin: Offsets, end: Offsets) -> bool:
        """True if a restarted reader may read the whole range again."""
        return sum(self._counts(begin, end, self._prefetch).values()) <= self._prefetch

    def _fetch(self, position: LogPosition, begin: Offsets, end: Offsets) -> list[pa.RecordBatch] | None:
        """The rows of a micro-batch, None if there are too many to read during planning."""
        scan, out, rows = replace(self._scan, switch=position.switch), list[pa.RecordBatch](), 0
        for batch in (conform(b, self._target) for b0 in begin for b in scan.read(b0, begin[b0], end[b0])):
            out += [batch] if batch.num_rows else []
            rows += batch.num_rows
            if rows > PARTITION_ROWS and scan.is_transactional:  # of an epoch that began long before
                return None
        return out

    def _parts_of(self, snapshot: int) -> Sequence[Split]:
        if self._splits[0] != snapshot:
            self._splits = (snapshot, self._part.splits(snapshot))
        return self._splits[1]

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        begin, stop = self._ends_of(start, end)
        nothing = [LogRange(0, 0, 0)]
        if begin.full is not None and (stop.full is None or stop.full[0] == begin.full[0]):
            last = None if stop.full is None else stop.full[1]
            parts = [FullRange(split) for split in self._parts_of(begin.full[0])[begin.full[1] : last]]
            further = self._records(begin, stop, end) if last is None and begin.offsets != stop.offsets else []
            return [*parts, *further] or nothing
        if stop.full is not None or self._key(begin.offsets, stop.offsets) in self._fetched:
            return nothing
        return self._records(begin, stop, end) or nothing

    def _records(self, begin: LogPosition, stop: LogPosition, end: dict[str, object]) -> list[LogRange]:
        """The records of a micro-batch for tasks; ``end`` is its end as Spark keeps it."""
        available = self._scan.available_offsets(self._seen(dict(begin.offsets)))
        return [p for b, at in available.items() for p in self._ranges(b, at, stop.offsets[b], begin.switch, end)]

    def getCache(self, start: dict[str, object], end: dict[str, object]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        begin, stop = self._ends_of(start, end)
        if begin.full is not None or stop.full is not None:
            return None
        fetched = self._fetched.get(self._key(begin.offsets, stop.offsets))
        return None if fetched is None else iter(fetched)

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        if isinstance(input_partition, LogRange):
            part = input_partition
            for batch in replace(self._scan, switch=part.switch).read(part.bucket, part.start, part.end):
                yield conform(batch, self._target)
        elif isinstance(input_partition, FullRange):
            for batch in self._part.read(input_partition.split):
                yield conform(batch, self._target)

    def commit(self, end: dict[str, object]) -> None:
        table, position = self._scan.table, self._from_json(end)
        name = table.options.get_typed(CONSUMER_ID)
        if name is None or monotonic_s() < self._reported + _REPORT_EVERY_S:
            return
        self._reported = monotonic_s()
        NamedReaders(table.io, table.path).record(name, position.offsets)
        consumers = table.store.consumers
        if position.full is not None and position.full[0]:
            consumers.record(name, position.full[0])  # expiry keeps the snapshot
        elif consumers.position(name) is not None:
            consumers.delete(name)

    def stop(self) -> None:
        """Does nothing: clients stay open in the worker for the next query."""

    def _end(self, seen: Offsets) -> Offsets:
        """The end of a micro-batch that starts at ``seen``; the same offsets if there is nothing new."""
        if self._stop_at is not None:
            ends = self._stop_at
        else:
            ends = self._scan.reader.ready_offsets(seen)
            if all(ends[b] <= seen[b] for b in seen):
                self._scan.reader.wait(seen, _POLL_S)
                ends = self._scan.reader.ready_offsets(seen)
                if all(ends[b] <= seen[b] for b in seen):
                    return seen
        new = {b: max(ends[b], seen[b]) for b in seen}
        counts = self._counts(seen, new, self._limit)
        total = sum(counts.values())
        if total <= self._limit:
            return new
        limit = RowLimit(self._scan)
        return {b: limit.end(b, seen[b], new[b], max(1, n * self._most_rows // total)) for b, n in counts.items()}

    def _counts(self, begin: Offsets, end: Offsets, enough: int) -> dict[int, int]:
        """Bucket → number of its records between the offsets, counted up to one more than ``enough``."""
        return {b: self._scan.reader.count(b, begin[b], end[b], enough + 1) for b in begin}

    def _ranges(
        self, bucket: int, start: int, end: int, switch: SnapshotCutover | None, to: Mapping[str, object]
    ) -> Iterator[LogRange]:
        """The parts of a bucket for tasks; ``to`` is the end of the micro-batch."""
        reader, most = self._scan.reader, self._of_a_task
        if self._is_packed:
            most = max(most, -(-reader.count(bucket, start, end, end - start) // _MOST_TASKS))
        while start < end:
            first, start = start, reader.skip(bucket, start, end, most)
            yield LogRange(bucket, first, start, switch)

    def _seen(self, begin: Offsets) -> Offsets:
        """The offsets up to which this process has found no rows after ``begin``."""
        return self._idle.seen if self._idle is not None and self._idle.begin == begin else begin

    def _to_json(self, position: LogPosition) -> dict[str, object]:
        return self._scan.position_json(position)

    def _ends_of(self, start: dict[str, object], end: dict[str, object]) -> tuple[LogPosition, LogPosition]:
        """The positions between which a micro-batch reads, the same on every request by Spark."""
        first = end.get(_FROM, start)
        assert isinstance(first, dict)
        return self._from_json(first), self._from_json(end)

    def _from_json(self, value: Mapping[str, object]) -> LogPosition:
        return self._scan.position_of(value)

    @staticmethod
    def _key(begin: Mapping[int, int], end: Mapping[int, int]) -> str:
        return f"{sorted(begin.items())}-{sorted(end.items())}"
