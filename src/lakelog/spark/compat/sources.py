"""The base classes of Python data sources, on every PySpark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.spark.compat.natives import DATA_SOURCES, STREAM_ARROW_WRITER, STREAM_LIMITS

if TYPE_CHECKING or DATA_SOURCES:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        InputPartition,
        WriterCommitMessage,
    )
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as PrefetchingReader
else:

    class DataSource:
        """The options of a read or a write."""

        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

    class InputPartition:
        """A part of a read."""

        def __init__(self, value: object) -> None:
            self.value = value

    class PrefetchingReader:
        """The reader of a stream; its process calls it."""

        def __init__(self, simple_reader: object) -> None:
            """Takes what PySpark's class takes."""

    class DataSourceReader: ...

    class DataSourceStreamReader: ...

    class DataSourceArrowWriter: ...

    class DataSourceStreamWriter: ...

    class WriterCommitMessage: ...


if TYPE_CHECKING or STREAM_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """How much a micro-batch may read."""

    class ReadAllAvailable(ReadLimit):
        """All that is there."""

    class SupportsTriggerAvailableNow:
        """A reader that ends where the data ended at its start."""


if TYPE_CHECKING or STREAM_ARROW_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """A writer that gets Arrow batches, because Spark asks only whether it is the Arrow writer of a batch."""


class ReadWhole(ReadAllAvailable):
    """All that is there, in one micro-batch: the limit of a Spark that sets none."""


class WholeReader(PrefetchingReader):
    """A reader for a Spark that asks for the newest offset and does not say after which one.

    It follows the position. Such a Spark makes one micro-batch of a query that reads what is available, and so each
    one has all that is there (``whole``: a reader without limits).
    """

    def __init__(self, whole: Any) -> None:
        super().__init__(whole)
        self._whole = whole
        self._first: dict[str, Any] | None = None
        self._at: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._first is None:  # asked again, it may be another one
            self._first = self._whole.initialOffset()
        return self._first

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        start = self.initialOffset() if self._at is None else self._at
        end: dict[str, Any] = self._whole.latestOffset(start, ReadWhole())
        self._at = end
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._at = end if self._at is None else self._at  # Spark names the last position after a restart
        return [InputPartition(None)] if start == end else self._whole.partitions(start, end)

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        fetched = getattr(self._whole, "getCache", None)
        return None if fetched is None or start == end else fetched(start, end)

    def read(self, input_partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._whole.read(input_partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._whole.commit(end)

    def stop(self) -> None:
        self._whole.stop()


def stream_reader(whole: Any) -> DataSourceStreamReader:
    """The reader as this Spark calls it; ``whole`` has no limits where Spark sets none."""
    return whole if STREAM_LIMITS else WholeReader(whole)


__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "PrefetchingReader",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadWhole",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "stream_reader",
]
