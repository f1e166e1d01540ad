"""Streaming read of the log in Spark: small batches travel with the plan, large ones are read by executors.

A Python source has two ways into Spark. A *simple* reader hands the rows over while planning: no task of its own,
lowest latency, one core. A *partitioned* reader gives ranges to tasks: full throughput, one more hop. This reader
decides per micro-batch. It builds on
``_SimpleStreamReaderWrapper``, the class by which Spark's runner recognises prefetched rows (the same in 4.2 and 4.3;
a test holds it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lakelog.errors import InvalidRequest
from lakelog.options.log import MAX_ROWS_PER_TRIGGER
from lakelog.spark.types import arrow_for_spark, fit
from lakelog.spark.worker import settle
from lakelog.spec.row_kind import ROW_KIND_COLUMN
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_scan import LogScan

_PREFETCH_ROWS = 20_000
_PREFETCH_AT_LEAST = 24
"""Up to this many new rows, or records where one holds many, are read while planning; more are read by tasks."""

_PARTITION_ROWS = 200_000
"""Rows of one task."""

_POLL_S = 0.02
"""How long planning waits for the next record before it tells Spark that there is nothing new."""

Offsets = dict[int, int]


class LogRange(InputPartition):
    """Records of one bucket, start ≤ offset < end."""

    def __init__(self, bucket: int, start: int, end: int) -> None:
        super().__init__(bucket)
        self.bucket, self.start, self.end = bucket, start, end


class LakelogStreamReader(_SimpleStreamReaderWrapper, SupportsTriggerAvailableNow):
    """The source of a streaming query on a table's log. Its offsets are ``{"log": id, "offsets": {bucket:
    offset}}``."""

    def __init__(self, table: DynamicTable, schema: StructType) -> None:
        super().__init__(self)  # type: ignore[arg-type]  # the base only asks whether it supports AvailableNow
        names = [n for n in schema.fieldNames() if n != ROW_KIND_COLUMN]
        self._scan = LogScan(table, tuple(names))
        self._target = arrow_for_spark(schema)
        self._limit = self._scan.records_of(table.options.need(MAX_ROWS_PER_TRIGGER))
        self._prefetch = max(_PREFETCH_AT_LEAST, self._scan.records_of(_PREFETCH_ROWS))
        self._of_a_task = self._scan.records_of(_PARTITION_ROWS)
        self._stop_at: Offsets | None = None
        self._idle: tuple[Offsets, Offsets] | None = None
        self._fetched: dict[str, list[pa.RecordBatch]] = {}

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        return self._to_json(self._scan.start_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._stop_at = self._scan.reader.end_offsets()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        settle()
        begin = self._from_json(start)
        end = self._end(begin)
        if all(end[b] <= begin[b] for b in begin):
            return start
        if sum(end[b] - begin[b] for b in begin) <= self._prefetch:
            seen = self._seen(begin)  # what was found to be control records need not be read again
            batches = [
                fit(b, self._target) for bucket in begin for b in self._scan.read(bucket, seen[bucket], end[bucket])
            ]
            batches = [b for b in batches if b.num_rows]
            if not batches and self._stop_at is None:
                self._idle = (begin, end)  # control records only: not worth a micro-batch
                return start
            self._fetched = {self._key(begin, end): batches}
        return self._to_json(end)

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        begin, stop = self._from_json(start), self._from_json(end)
        if self._key(begin, stop) in self._fetched:
            return [LogRange(0, 0, 0)]
        return [
            LogRange(bucket, first, min(first + self._of_a_task, stop[bucket]))
            for bucket in begin
            for first in range(begin[bucket], stop[bucket], self._of_a_task)
        ] or [LogRange(0, 0, 0)]

    def getCache(self, start: dict[str, object], end: dict[str, object]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        found = self._fetched.get(self._key(self._from_json(start), self._from_json(end)))
        return None if found is None else iter(found)

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if isinstance(input_partition, LogRange):
            part = input_partition
            for batch in self._scan.read(part.bucket, part.start, part.end):
                yield fit(batch, self._target)

    def commit(self, end: dict[str, object]) -> None:
        """Nothing to do: prefetched rows are dropped with the next batch, and readers leave no trace in the log."""

    def stop(self) -> None:
        """Clients stay open in the worker for the next query."""

    def _end(self, begin: Offsets) -> Offsets:
        if self._stop_at is not None:
            ends = self._stop_at
        else:
            seen = self._seen(begin)
            ends = self._scan.reader.ready_offsets(seen)
            if all(ends[b] <= seen[b] for b in seen):
                self._scan.reader.wait(seen, _POLL_S)
                ends = self._scan.reader.ready_offsets(seen)
                if all(ends[b] <= seen[b] for b in seen):
                    return begin
        new = {b: max(ends[b], begin[b]) for b in begin}
        total = sum(new[b] - begin[b] for b in begin)
        if total <= self._limit:
            return new
        return {
            b: begin[b] + max(1, (new[b] - begin[b]) * self._limit // total) if new[b] > begin[b] else begin[b]
            for b in begin
        }

    def _seen(self, begin: Offsets) -> Offsets:
        """Up to where this process knows that there are no rows after ``begin``."""
        return self._idle[1] if self._idle is not None and self._idle[0] == begin else begin

    def _to_json(self, offsets: Offsets) -> dict[str, object]:
        return {"log": self._scan.location.log_id, "offsets": {str(b): o for b, o in sorted(offsets.items())}}

    def _from_json(self, value: dict[str, object]) -> Offsets:
        if value.get("log") != self._scan.location.log_id:
            raise InvalidRequest(
                f"the checkpoint belongs to another log ({value.get('log')}) than that of table "
                f"{self._scan.table.name} "
                f"({self._scan.location.log_id}): the table was made anew, or it is the checkpoint of another table. "
                f"Use a new checkpointLocation."
            )
        offsets = value["offsets"]
        assert isinstance(offsets, dict)
        return {int(b): int(o) for b, o in offsets.items()}

    @staticmethod
    def _key(begin: Offsets, end: Offsets) -> str:
        return f"{sorted(begin.items())}-{sorted(end.items())}"
