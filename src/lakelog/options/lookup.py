"""Options of lookup joins: how fresh the index of the joined table is kept, what it may take, what is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakelog.options.names import file_name_fault
from lakelog.options.option import Declared, MemorySize, Option

_READ: Final = ("table", "read")

LOOKUP_ASYNC: Final = Option(
    "lookup.async",
    bool,
    False,
    "Whether a thread keeps the index of a lookup join fresh and tasks take what is there; without it each task first "
    "reads what is new.",
    _READ,
)
LOOKUP_REFRESH: Final = Option(
    "lookup.refresh-interval",
    timedelta,
    timedelta(milliseconds=200),
    "How often the thread of an asynchronous lookup join looks for new rows. Without lookup.async: after this time a "
    "task that is still at work looks again.",
    _READ,
)
LOOKUP_SOURCE: Final = Option(
    "lookup.source",
    str,
    "auto",
    "What a lookup join follows for new rows: the log, or the snapshots of the files. auto is the log if the table has "
    "one.",
    _READ,
    choices=("auto", "log", "files"),
)
LOOKUP_SHUFFLE: Final = Option(
    "lookup.shuffle",
    str,
    "auto",
    "Whether rows are brought to tasks by the bucket of their key before they are looked up, so that a task needs the "
    "index of few buckets. auto does so where the columns of the join are known to tell the bucket; none never.",
    _READ,
    choices=("auto", "none"),
)
LOOKUP_MEMORY: Final = Option(
    "lookup.cache-max-memory-size",
    MemorySize,
    MemorySize(64 << 20),
    "Memory in which each Python worker of a lookup join keeps blocks of its indexes, which lie on its local disk.",
    _READ,
)
LOOKUP_RETRIES: Final = Option(
    "lookup.retry.attempts",
    int,
    0,
    "How often a row that found nothing is looked up again, for rows of the joined table that come late.",
    _READ,
)
LOOKUP_RETRY_DELAY: Final = Option(
    "lookup.retry.delay",
    timedelta,
    timedelta(seconds=1),
    "How long a lookup join waits before it looks up again what it has not found.",
    _READ,
)
LOOKUP_NAME: Final = Option(
    "lookup.name",
    str,
    None,
    "Name under which the figures of a lookup join are kept (lake.lookup_stats); a new one each time unless given.",
    ("read",),
    fault=file_name_fault,
)

LOOKUP_OPTIONS: Final = Declared(
    [
        LOOKUP_ASYNC,
        LOOKUP_REFRESH,
        LOOKUP_SOURCE,
        LOOKUP_SHUFFLE,
        LOOKUP_MEMORY,
        LOOKUP_RETRIES,
        LOOKUP_RETRY_DELAY,
        LOOKUP_NAME,
    ]
)
"""Every option of this page."""
