"""``format("lakelog")`` in a session whose Spark has no Python data sources: refused, with the line to write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from lakelog.errors import UnsupportedFeature
from lakelog.spark.compat.natives import DATA_SOURCES

_INSTEAD: Final[Mapping[type, str]] = {
    DataFrameReader: "lake.sql('SELECT * FROM db.t')",
    DataFrameWriter: "lake.write(frame, 'db.t')",
    DataStreamReader: "lake.read_stream('db.t')",
    DataStreamWriter: "lake.write_stream(frame, 'db.t')",
}


@functools.cache
def refuse_format() -> None:
    """Replaces the method ``format`` of Spark's readers and writers once; other formats are Spark's."""
    for owner, instead in _INSTEAD.items():
        owner.format = _checked(owner.format, instead)  # type: ignore[attr-defined]


def _checked(spark: Callable[..., Any], instead: str) -> Callable[..., Any]:
    @functools.wraps(spark)
    def method(self: Any, source: str) -> Any:
        if source.lower() == "lakelog":
            raise UnsupportedFeature(
                f"format('lakelog') needs Spark {DATA_SOURCES.text}, because older ones have no Python data sources: "
                f"write {instead}"
            )
        return spark(self, source)

    return method
