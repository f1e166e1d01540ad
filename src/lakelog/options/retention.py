"""Options of retention: snapshots, changelogs, partitions, tags; with the keys and defaults of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

SNAPSHOTS_MIN: Final = Option("snapshot.num-retained.min", int, 10, "Minimum number of snapshots that expiry keeps.")
SNAPSHOTS_MAX: Final = Option(
    "snapshot.num-retained.max", int, 2**31 - 1, "Maximum number of snapshots that expiry keeps."
)
SNAPSHOT_TIME: Final = Option(
    "snapshot.time-retained", timedelta, timedelta(hours=1), "Maximum age of a snapshot before expiry removes it."
)
SNAPSHOT_EXPIRE_LIMIT: Final = Option(
    "snapshot.expire.limit", int, 50, "Maximum number of snapshots that one expiry removes."
)

CHANGELOGS_MIN: Final = Option(
    "changelog.num-retained.min",
    int,
    None,
    "Minimum number of changelogs that expiry keeps. Default: snapshot.num-retained.min.",
)
CHANGELOGS_MAX: Final = Option(
    "changelog.num-retained.max",
    int,
    None,
    "Maximum number of changelogs that expiry keeps. Default: snapshot.num-retained.max.",
)
CHANGELOG_TIME: Final = Option(
    "changelog.time-retained",
    timedelta,
    None,
    "Maximum age of a changelog before expiry removes it. If it exceeds snapshot.time-retained, a changelog "
    "outlives its snapshot.",
)

CONSUMER_EXPIRATION_TIME: Final = Option(
    "consumer.expiration-time", timedelta, None, "Idle time after which a consumer is deleted. Default: never."
)
CONSUMER_CHANGELOG_ONLY: Final = Option(
    "consumer.changelog-only", bool, False, "Whether consumers protect only changelogs from expiry, not snapshots."
)

PARTITION_EXPIRATION_TIME: Final = Option(
    "partition.expiration-time",
    timedelta,
    None,
    "Maximum age of a partition. Older partitions are dropped. Default: no limit.",
)
PARTITION_EXPIRATION_INTERVAL: Final = Option(
    "partition.expiration-check-interval",
    timedelta,
    timedelta(hours=1),
    "Interval between partition expiry runs of a writer.",
)
PARTITION_EXPIRATION_STRATEGY: Final = Option(
    "partition.expiration-strategy",
    str,
    "values-time",
    "Age of a partition: values-time computes it from the partition values, update-time from the last change.",
    choices=("values-time", "update-time"),
)
PARTITION_EXPIRATION_MAX: Final = Option(
    "partition.expiration-max-num", int, 100, "Maximum number of partitions that one expiry drops."
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option(
    "partition.timestamp-formatter",
    str,
    None,
    "Format of the time in a partition, such as yyyyMMdd. Default: yyyy-MM-dd [HH:mm:ss].",
)
PARTITION_TIMESTAMP_PATTERN: Final = Option(
    "partition.timestamp-pattern",
    str,
    None,
    "Pattern that builds the time from partition columns, such as '$dt $hour:00:00'. Default: the first column.",
)

RECORD_EXPIRE_TIME: Final = Option(
    "record-level.expire-time",
    timedelta,
    None,
    "Maximum age of a row. A compaction drops older rows when it rewrites them.",
)
RECORD_TIME_FIELD: Final = Option(
    "record-level.time-field", str, None, "Column with the time of a row: INT, BIGINT or a timestamp."
)

TAG_TIME: Final = Option("tag.default-time-retained", timedelta, None, "Retention of a new tag. Default: forever.")

FILE_THREADS: Final = Option(
    "file-operation.thread-num", int, None, "Number of threads that delete files concurrently. Default: 8."
)

RETENTION_OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Option)
)
