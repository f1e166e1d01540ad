"""The input of Spark's query among many writers: its offset is the number of the next change."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from chaos.registers import Row, with_kinds
from chaos.source import NumberedReader
from lakelog.io.clock import sleep
from lakelog.spark.compat.sources import DataSource, DataSourceStreamReader, ReadLimit, stream_reader
from lakelog.spark.runtime.types import arrow_for_spark, conform

_PAUSE_S = 0.3
_VALUES = 9 * 10**12


def changes(first: int, last: int, keys: int) -> list[Row]:
    """The changes first ≤ number < last; ``keys`` is 0 for a table without a key.

    Every fifth deletes. Of as many as there are keys none has the key of another.
    """
    if not keys:
        return [("+I", _VALUES + n, _VALUES + n) for n in range(first, last)]
    return [("-D" if n % 5 == 4 else "+I", n % keys, _VALUES + n) for n in range(first, last)]


class CrowdSource(DataSource):
    """``format("crowd")``. Option: ``keys``."""

    @classmethod
    def name(cls) -> str:
        return "crowd"

    def schema(self) -> str:
        return "id bigint, v bigint, _row_kind string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader(_Reader(int(self.options["keys"]), schema))


class _Reader(NumberedReader):
    def __init__(self, keys: int, schema: StructType) -> None:
        self._keys, self._target = keys, arrow_for_spark(schema)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        sleep(_PAUSE_S)
        return {"change": start["change"] + 1 + start["change"] % 4}

    def changes(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        yield conform(with_kinds(changes(first, last, self._keys)), self._target)
