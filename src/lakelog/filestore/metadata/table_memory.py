"""What a process remembers of a table, so that it does not read, search or warn twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cachetools import LRUCache

from lakelog.io.clock import monotonic_s
from lakelog.paimon.schema.schema import TableSchema

_MOST_TABLES: Final = 10_000
"""Branches of tables whose memory a process keeps; the memory of one that it has not used for longest goes first."""
_MOST_SCHEMAS: Final = 100


@dataclass(eq=False)
class TableMemory:
    """The memory of a branch of a table. What is forgotten is read again, which costs time and changes no result."""

    late_searched: dict[int, int] = field(default_factory=dict)
    """Bucket → offset below which this process has searched for late rows."""
    late_rows: LRUCache[tuple[int, str, int], None] = field(default_factory=partial(LRUCache, 10_000))
    """Bucket, attempt and its last offset of the late rows that were registered.

    In a log in ``upsert`` mode no correction follows rows whose keys another writer has written since.
    """
    origins: LRUCache[tuple[str, int], Mapping[int, int]] = field(default_factory=partial(LRUCache, 1_000))
    """Writer and time of its registration → where its rows begin."""
    is_without_lanes: bool = False
    """True if a table with a key has no more epoch records of an older version in a lane."""
    caught_up_logs: set[str] = field(default_factory=set)
    """Ids of the logs that a backfill into the files has caught up with, which is permanent."""
    first_schemas: LRUCache[tuple[int, int], TableSchema] = field(default_factory=partial(LRUCache, _MOST_SCHEMAS))
    """Schema id and its time → the schema of log records without an id."""
    rebucketed: LRUCache[tuple[int, int, int], bool] = field(default_factory=partial(LRUCache, _MOST_SCHEMAS))
    """Schema id, its time and the newest id → True if another schema has another number of buckets."""
    tried_schemas: set[int] = field(default_factory=set)
    """Ids of the schemas for which a trial file was written."""
    warned_epochs: LRUCache[tuple[str, int], None] = field(default_factory=partial(LRUCache, 1_000))
    """Writer and its newest epoch of a warning that its query repeats an older one."""
    _checked_s: dict[str, float] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def is_due(self, what: str, every_s: float) -> bool:
        """True for the first caller in ``every_s`` seconds, who makes this check of the table now."""
        with self._lock:
            now = monotonic_s()
            if now - self._checked_s.get(what, float("-inf")) < every_s:
                return False
            self._checked_s[what] = now
            return True


def memory_of(key: str) -> TableMemory:
    """This process's memory of a branch of a table. A forked process begins with none.

    ``key`` must be unique: no later table of the same name has it (``Identity.memory``).
    """
    with _LOCK:
        own_key = os.getpid(), key
        memory = _MEMORIES.get(own_key)
        if memory is None:
            memory = _MEMORIES[own_key] = TableMemory()
        return memory


_LOCK: Final = threading.Lock()
_MEMORIES: Final[LRUCache[tuple[int, str], TableMemory]] = LRUCache(_MOST_TABLES)
