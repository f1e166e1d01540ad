"""The option for the number of partitions of a log (RFC 18)."""

from __future__ import annotations

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
