"""Options of lookups, and of compaction triggers other than universal compaction; keys of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import MemorySize, Option

_WRITE: Final = ("table", "write")

OPTIMIZATION_INTERVAL: Final = Option(
    "compaction.optimization-interval",
    timedelta,
    None,
    "Interval between full compactions of a bucket. It limits the age of read-optimized reads.",
    _WRITE,
)
TOTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.total-size-threshold",
    MemorySize,
    None,
    "Total size of a bucket below which compactions are always full.",
    _WRITE,
)
INCREMENTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.incremental-size-threshold",
    MemorySize,
    None,
    "Maximum total size of a bucket's files outside the highest level. If they are larger, the next compaction "
    "is full.",
    _WRITE,
)
FORCE_UP_LEVEL_ZERO: Final = Option(
    "compaction.force-up-level-0", bool, False, "Whether every compaction includes all files of level 0.", _WRITE
)
FORCE_REWRITE: Final = Option(
    "compaction.force-rewrite-all-files",
    bool,
    False,
    "Whether compactions rewrite all files, including those that need no rewrite.",
    _WRITE,
)
DELETE_RATIO: Final = Option(
    "compaction.delete-ratio-threshold",
    float,
    0.2,
    "Fraction of deleted rows above which a file of a table without a primary key is rewritten.",
    _WRITE,
)
LOOKUP_COMPACT: Final = Option(
    "lookup-compact",
    str,
    "radical",
    "Compaction of tables whose compactions look up old values. radical compacts every new file; gentle waits for "
    "'lookup-compact.max-interval' files.",
    _WRITE,
    choices=("radical", "gentle"),
)
LOOKUP_COMPACT_INTERVAL: Final = Option(
    "lookup-compact.max-interval",
    int,
    None,
    "Number of level 0 files that start a gentle lookup compaction, at least the compaction trigger. Default: twice "
    "the compaction trigger.",
    _WRITE,
)
LOOKUP_CACHE_SIZE: Final = Option(
    "lookup.cache-max-disk-size",
    MemorySize,
    None,
    "Maximum local disk space for copies of files that compactions look up repeatedly. 0 disables the copies. "
    "Default: no limit.",
    _WRITE,
)
LOOKUP_CACHE_RETENTION: Final = Option(
    "lookup.cache-file-retention",
    timedelta,
    timedelta(hours=1),
    "Time since the last lookup after which the local copy of a file is deleted.",
    _WRITE,
)

PICKING_OPTIONS: Final[tuple[Option[Any], ...]] = (
    OPTIMIZATION_INTERVAL, TOTAL_SIZE_THRESHOLD, INCREMENTAL_SIZE_THRESHOLD, FORCE_UP_LEVEL_ZERO, FORCE_REWRITE,
    DELETE_RATIO, LOOKUP_COMPACT, LOOKUP_COMPACT_INTERVAL, LOOKUP_CACHE_SIZE, LOOKUP_CACHE_RETENTION,
)  # fmt: skip
