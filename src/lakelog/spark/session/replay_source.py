"""A streaming source that replays an Arrow file at a given rate, as realistic input of the demo and the benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.io.clock import now_ms, sleep
from lakelog.spark.compat.sources import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    PrefetchingReader,
    ReadAllAvailable,
    ReadLimit,
    stream_reader,
)
from lakelog.spark.runtime.types import arrow_for_spark, conform, spark_schema
from lakelog.spark.runtime.worker import prepare_worker

SENT_COLUMN = "sent_at"
"""Due time of the row (timestamp, UTC); a row's latency is its arrival time minus this."""

_POLL_S = 0.002


class ReplaySource(DataSource):
    """``format("lakelog-replay")``.

    Options: ``path`` (an Arrow IPC file), ``rate`` (rows/s), ``paced_rows`` (number of rows after which the rest is
    sent as fast as it is read), ``burst`` (maximum rows per micro-batch), ``start_ms`` (due time of the first row),
    ``partitions`` (tasks of a large micro-batch, default 1; no shuffle has to spread its rows).
    """

    @classmethod
    def name(cls) -> str:
        return "lakelog-replay"

    def schema(self) -> StructType:
        return spark_schema(_open(self.options["path"]).schema.append(pa.field(SENT_COLUMN, pa.timestamp("us", "UTC"))))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader(_ReplayReader(dict(self.options), schema))


class _Rows(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        super().__init__(first)
        self.first, self.last = first, last


class _ReplayReader(PrefetchingReader):
    """Sends small steps with the plan, and large ones to tasks; the rows of a range are deterministic."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        super().__init__(self)  # type: ignore[arg-type]  # the base only asks whether it supports AvailableNow
        self._path, self._target = options["path"], arrow_for_spark(schema)
        self._rate, self._start_ms = float(options["rate"]), int(options["start_ms"])
        self._paced, self._burst = int(options["paced_rows"]), int(options["burst"])
        self._partitions = int(options.get("partitions", "1"))
        self._total: int = _open(self._path).num_rows
        self._fetched: dict[tuple[int, int], list[pa.RecordBatch]] = {}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        prepare_worker()
        first = start["row"]
        last = self._due(first)
        if last == first:
            sleep(_POLL_S)
            last = self._due(first)
        if last > first and last - first <= 5_000:
            self._fetched = {(first, last): list(self._read(first, last))}
        return {"row": last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, count = start["row"], end["row"] - start["row"]
        bounds = [first + count * number // self._partitions for number in range(self._partitions + 1)]
        return [_Rows(*pair) for pair in itertools.pairwise(bounds)]

    def getCache(self, start: dict[str, int], end: dict[str, int]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        rows = self._fetched.get((start["row"], end["row"]))
        return None if rows is None else iter(rows)

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        if isinstance(input_partition, _Rows):
            yield from self._read(input_partition.first, input_partition.last)

    def commit(self, end: dict[str, int]) -> None:
        """Does nothing, because no state is kept."""

    def stop(self) -> None:
        """Does nothing, because no resources are open."""

    def _due(self, first: int) -> int:
        due = int((now_ms() - self._start_ms) * self._rate / 1000)
        if due >= self._paced:
            due = self._total if self._paced < self._total else due
        return max(first, min(due, self._total, first + self._burst))

    def _read(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        rows = _open(self._path).slice(first, last - first)
        due_us = self._start_ms * 1000 + np.arange(first, last, dtype=np.int64) * int(1_000_000 / self._rate)
        paced_us = np.minimum(due_us, self._start_ms * 1000 + int(self._paced * 1_000_000 / self._rate))
        rows = rows.append_column(SENT_COLUMN, pa.array(paced_us, pa.timestamp("us", "UTC")))
        for batch in rows.to_batches(max_chunksize=65_536):
            yield conform(batch, self._target)


_OPEN: dict[str, pa.Table] = {}


def _open(path: str) -> pa.Table:
    if path not in _OPEN:
        with pa.memory_map(path) as source:
            _OPEN[path] = pa.ipc.open_file(source).read_all()
    return _OPEN[path]
