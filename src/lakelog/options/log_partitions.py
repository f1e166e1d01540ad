"""Options of appends to a log: its partitions (RFC 18), and the time that rows wait for others."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakelog.options.option import Option

LOG_PARTITIONS: Final = Option(
    "log-store.partitions",
    int,
    None,
    "Number of partitions of the log, at least 1. The key of a row decides its partition. Default: the number of "
    "buckets; 1 with dynamic buckets. It is fixed at CREATE TABLE, also if 'bucket' changes later.",
    fault=lambda number: "" if number > 0 else "a log has at least 1 partition",
)
LINGER: Final = Option(
    "log-store.linger", timedelta, timedelta(0), "Time for which rows of `Table.writer()` wait to be appended together."
)
