"""Options of lookup joins: freshness, memory and retries of the joined table's index."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakelog.options.names import file_name_fault
from lakelog.options.option import Declared, MemorySize, Option, options_in

_READ: Final = ("table", "read")

LOOKUP_ASYNC: Final = Option(
    "lookup.async",
    bool,
    False,
    "Whether a thread refreshes the index of a lookup join while tasks use the current index. If false, each task "
    "first reads the new rows.",
    _READ,
)
LOOKUP_REFRESH: Final = Option(
    "lookup.refresh-interval",
    timedelta,
    timedelta(milliseconds=200),
    "Interval between the refreshes of an asynchronous lookup join. Without lookup.async: interval after which a "
    "running task refreshes again.",
    _READ,
    aliases=("lookup.reloading.interval",),
)
LOOKUP_SOURCE: Final = Option(
    "lookup.source",
    str,
    "auto",
    "Source of new rows for a lookup join: the log, or the snapshots of the files. auto is the log if the table has "
    "one.",
    _READ,
    choices=("auto", "log", "files"),
)
LOOKUP_SHUFFLE: Final = Option(
    "lookup.shuffle",
    str,
    "auto",
    "Whether to shuffle rows to tasks by the bucket of their key before the lookup, so that a task needs the index "
    "of few buckets. auto shuffles where the join columns are known to determine the bucket; none never shuffles.",
    _READ,
    choices=("auto", "none"),
)
LOOKUP_MEMORY: Final = Option(
    "lookup.cache-max-memory-size",
    MemorySize,
    MemorySize(64 << 20),
    "Memory of each Python worker of a lookup join for cached index blocks. The indexes are on its local disk.",
    _READ,
)
LOOKUP_RETRIES: Final = Option(
    "lookup.retry.attempts",
    int,
    0,
    "Number of lookup retries for a row without a match, in case the row of the joined table is late.",
    _READ,
)
LOOKUP_RETRY_DELAY: Final = Option(
    "lookup.retry.delay",
    timedelta,
    timedelta(seconds=1),
    "Delay of a lookup join before each retry.",
    _READ,
)
LOOKUP_NAME: Final = Option(
    "lookup.name",
    str,
    None,
    "Name for the statistics of a lookup join (lake.lookup_stats). Default: a new name for each join.",
    ("read",),
    fault=file_name_fault,
)

PROCTIME_COLUMNS: Final = Option(
    "lookup.proctime-columns",
    str,
    None,
    "Names of columns AS PROCTIME() in CREATE TABLE, separated by commas. FOR SYSTEM_TIME AS OF may name them; rows do "
    "not have them.",
)

LOOKUP_OPTIONS: Final = Declared(options_in(globals()))
"""Every option of this page."""
