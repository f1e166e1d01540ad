"""The input as a streaming source of Spark: its offset is the number of the next change, so that any run repeats it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from chaos.rows import Input
from lakelog.io.clock import now_ms, sleep
from lakelog.spark.compat.sources import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    stream_reader,
)
from lakelog.spark.runtime.types import arrow_for_spark, conform, spark_schema

_POLL_S = 0.02
_BATCH_ROWS = 5_000


class ChaosSource(DataSource):
    """``format("chaos")``. Options: ``kind``, ``keys`` and ``seed`` of the input; ``total`` changes at ``rate`` a
    second from ``start_ms`` on, at most ``burst`` a micro-batch.
    """

    @classmethod
    def name(cls) -> str:
        return "chaos"

    def schema(self) -> StructType:
        return spark_schema(_input(self.options).schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader(_Reader(dict(self.options), schema))


class _Changes(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        super().__init__(first)
        self.first, self.last = first, last


class NumberedReader(DataSourceStreamReader):
    """Reader of changes that are known by their numbers; ``changes`` makes the rows of some of them."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"change": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [_Changes(start["change"], end["change"])]

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(input_partition, _Changes)
        return self.changes(input_partition.first, input_partition.last)

    def changes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """The changes first ≤ number < last."""
        raise NotImplementedError

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""

    def stop(self) -> None:
        """Nothing is open."""


class _Reader(NumberedReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._input, self._target = _input(options), arrow_for_spark(schema)
        self._total, self._rate = int(options["total"]), float(options["rate"])
        self._start_ms, self._burst = int(options["start_ms"]), int(options["burst"])

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        first = start["change"]
        due = int((now_ms() - self._start_ms) * self._rate / 1000)
        last = max(first, min(due, self._total, first + self._burst))
        if last == first:
            sleep(_POLL_S)
        return {"change": last}

    def changes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        for at in range(first, last, _BATCH_ROWS):
            yield conform(self._input.rows(at, min(at + _BATCH_ROWS, last)), self._target)


def _input(options: dict[str, str]) -> Input:
    return Input(options["kind"], int(options["keys"]), int(options["seed"]))
