"""Options of what a compaction picks beside what universal compaction would, and of lookups; keys of Apache Paimon."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import MemorySize, Option

_WRITE: Final = ("table", "write")

OPTIMIZATION_INTERVAL: Final = Option(
    "compaction.optimization-interval",
    timedelta,
    None,
    "Compact a bucket fully when the last time is this long ago, so that read-optimized reads are no older.",
    _WRITE,
)
TOTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.total-size-threshold",
    MemorySize,
    None,
    "Always compact a bucket fully as long as all its files are smaller than this.",
    _WRITE,
)
INCREMENTAL_SIZE_THRESHOLD: Final = Option(
    "compaction.incremental-size-threshold",
    MemorySize,
    None,
    "Compact a bucket fully when its files below the highest level are larger than this.",
    _WRITE,
)
FORCE_UP_LEVEL_ZERO: Final = Option(
    "compaction.force-up-level-0", bool, False, "Every compaction takes all files of level 0.", _WRITE
)
FORCE_REWRITE: Final = Option(
    "compaction.force-rewrite-all-files",
    bool,
    False,
    "Compactions write every file again, also those that could stay as they are.",
    _WRITE,
)
DELETE_RATIO: Final = Option(
    "compaction.delete-ratio-threshold",
    float,
    0.2,
    "Share of deleted rows above which a file of a table without a primary key is written again.",
    _WRITE,
)
LOOKUP_COMPACT: Final = Option(
    "lookup-compact",
    str,
    "radical",
    "Whether tables whose compactions look up old values compact every new file (radical), or only when "
    "'lookup-compact.max-interval' files have come together (gentle).",
    _WRITE,
    choices=("radical", "gentle"),
)
LOOKUP_COMPACT_INTERVAL: Final = Option(
    "lookup-compact.max-interval",
    int,
    None,
    "Files of level 0 that a gentle lookup compaction waits for; twice the compaction trigger unless given, and not "
    "less than it.",
    _WRITE,
)
LOOKUP_CACHE_SIZE: Final = Option(
    "lookup.cache-max-disk-size",
    MemorySize,
    None,
    "Local disk for copies of files that compactions look up again and again; 0 makes none, without it no limit.",
    _WRITE,
)
LOOKUP_CACHE_RETENTION: Final = Option(
    "lookup.cache-file-retention",
    timedelta,
    timedelta(hours=1),
    "A local copy of a file that no compaction has looked up for this long is deleted.",
    _WRITE,
)

PICKING_OPTIONS: Final[tuple[Option[Any], ...]] = (
    OPTIMIZATION_INTERVAL,
    TOTAL_SIZE_THRESHOLD,
    INCREMENTAL_SIZE_THRESHOLD,
    FORCE_UP_LEVEL_ZERO,
    FORCE_REWRITE,
    DELETE_RATIO,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_INTERVAL,
    LOOKUP_CACHE_SIZE,
    LOOKUP_CACHE_RETENTION,
)
