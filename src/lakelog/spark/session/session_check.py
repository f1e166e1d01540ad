"""The settings that a session made by others lacks, and what each of them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from lakelog.spark.session.session import STREAM_SETTINGS

_WHY: Final[Mapping[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "each Python task pays about 40 ms for a delayed TCP acknowledgement",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "on a local disk each checkpoint file starts processes, about 30 ms a micro-batch"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "twice as many checkpoint files a micro-batch",
    "spark.sql.execution.pyspark.binaryAsBytes": "binary columns come as bytearray, which cannot be a key",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "more and smaller batches: bulk reads and writes are slower",
    "spark.sql.execution.arrow.maxBytesPerBatch": "batches of wide rows may need much memory in Python workers",
}
"""What a setting of ``STREAM_SETTINGS`` is for."""


@dataclass(frozen=True)
class SessionGap:
    """A setting that is other than lakelog's own sessions have it: its key, what it should be and is, what it costs."""

    key: str
    wanted: str
    found: str | None
    why: str


def session_gaps(spark: SparkSession) -> list[SessionGap]:
    """The gaps of a session, classic or Connect. None of them makes a result wrong."""
    gaps = []
    for key, wanted in STREAM_SETTINGS.items():
        found = spark.conf.get(key, None)
        if found != wanted:
            gaps.append(SessionGap(key, wanted, found, _WHY[key]))
    return gaps
