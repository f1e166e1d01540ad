"""Options of what a table keeps and for how long, with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

CHANGELOGS_MIN: Final = Option(
    "changelog.num-retained.min", int, None, "Changelogs that expiry always keeps; without it as many as snapshots."
)
CHANGELOGS_MAX: Final = Option(
    "changelog.num-retained.max", int, None, "Changelogs that expiry keeps at most; without it as many as snapshots."
)
CHANGELOG_TIME: Final = Option(
    "changelog.time-retained",
    timedelta,
    None,
    "Age up to which expiry keeps a changelog; when it is longer than the snapshots' it outlives its snapshot.",
)

CONSUMER_EXPIRATION_TIME: Final = Option(
    "consumer.expiration-time", timedelta, None, "A consumer that has not moved for this long is forgotten."
)
CONSUMER_CHANGELOG_ONLY: Final = Option(
    "consumer.changelog-only", bool, False, "Consumers keep changelogs from expiry, but no snapshots."
)

PARTITION_EXPIRATION_TIME: Final = Option(
    "partition.expiration-time", timedelta, None, "Partitions older than this are dropped; none unless given."
)
PARTITION_EXPIRATION_INTERVAL: Final = Option(
    "partition.expiration-check-interval", timedelta, timedelta(hours=1), "How often a writer drops old partitions."
)
PARTITION_EXPIRATION_STRATEGY: Final = Option(
    "partition.expiration-strategy",
    str,
    "values-time",
    "The age of a partition: values-time takes it from its values, update-time from its last change.",
    choices=("values-time", "update-time"),
)
PARTITION_EXPIRATION_MAX: Final = Option(
    "partition.expiration-max-num", int, 100, "Partitions that one expiry drops at most."
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option(
    "partition.timestamp-formatter",
    str,
    None,
    "How the time in a partition is written, such as yyyyMMdd; without it yyyy-MM-dd [HH:mm:ss].",
)
PARTITION_TIMESTAMP_PATTERN: Final = Option(
    "partition.timestamp-pattern",
    str,
    None,
    "How the time follows from partition columns, such as '$dt $hour:00:00'; without it the first column.",
)

RECORD_EXPIRE_TIME: Final = Option(
    "record-level.expire-time", timedelta, None, "Rows older than this are dropped when a compaction rewrites them."
)
RECORD_TIME_FIELD: Final = Option(
    "record-level.time-field", str, None, "The column with the time of a row: INT, BIGINT or a timestamp."
)

TAG_TIME: Final = Option(
    "tag.default-time-retained", timedelta, None, "How long a new tag is kept; for ever unless given."
)

FILE_THREADS: Final = Option(
    "file-operation.thread-num", int, None, "Threads that delete files at the same time; 8 unless given."
)

RETENTION_OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Option)
)
