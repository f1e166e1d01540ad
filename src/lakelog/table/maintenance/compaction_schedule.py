"""Decides when a streaming writer compacts a table fully: after a number of commits, or after an interval."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lakelog.io.clock import now_ms
from lakelog.options.changelog import CHANGELOG_PRODUCER
from lakelog.options.compaction import FULL_COMPACTION_COMMITS, FULL_COMPACTION_INTERVAL
from lakelog.options.option import Options
from lakelog.paimon.metadata.snapshot import APPEND, OVERWRITE, Snapshot
from lakelog.table.model.dynamic_table import DynamicTable

FULL_MARK: Final = "lakelog.full-compaction"
"""Property of the snapshot that completed a full compaction of all buckets."""


def commits_between(options: Options) -> int | None:
    """Number of commits between full compactions; None if only ``FULL_COMPACTION_INTERVAL`` may trigger them."""
    commits = options.get_typed(FULL_COMPACTION_COMMITS)
    if commits is not None:
        return max(commits, 1)
    is_producer = options.need(CHANGELOG_PRODUCER) == "full-compaction"
    return 1 if is_producer and not options.get_typed(FULL_COMPACTION_INTERVAL) else None


class FullCompactions:
    """Counts the commits and the time since the last full compaction of one table, across processes and restarts.

    Each check reads the snapshots that are new since the previous one.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._commits = 0
        self._since_ms: int | None = None

    def is_due(self, table: DynamicTable) -> bool:
        """True if a full compaction is due; always false for a table whose options do not request it."""
        commits = commits_between(table.options)
        interval = table.options.get_typed(FULL_COMPACTION_INTERVAL) or None
        if not table.schema.is_keyed or (commits is None and interval is None):
            return False
        self._read_new_snapshots(table, commits, interval)
        if commits is not None and self._commits >= commits:
            return True
        return interval is not None and self._since_ms is not None and _is_over(self._since_ms, interval)

    def _read_new_snapshots(self, table: DynamicTable, commits: int | None, interval: timedelta | None) -> None:
        """Walks back to the last check, to a full compaction, or until a full compaction is known to be due."""
        latest = table.store.latest_snapshot()
        newest = 0 if latest is None else latest.id
        if newest < self._seen:  # the table was rolled back
            self._seen, self._commits, self._since_ms = 0, 0, None
        fresh: list[Snapshot] = []
        for snapshot in table.store.snapshots.backwards(latest) if latest is not None else ():
            if snapshot.id <= self._seen:
                break
            if (snapshot.properties or {}).get(FULL_MARK) == "true":
                self._commits, self._since_ms = 0, snapshot.time_millis
                break
            fresh.append(snapshot)
            if commits is not None and sum(map(_is_write, fresh)) >= commits:
                break
            if interval is not None and _is_over(snapshot.time_millis, interval):
                break
        self._commits += sum(map(_is_write, fresh))
        self._seen = newest
        if fresh and self._since_ms is None:
            self._since_ms = fresh[-1].time_millis


def _is_write(snapshot: Snapshot) -> bool:
    return snapshot.commit_kind in (APPEND, OVERWRITE)


def _is_over(since_ms: int, interval: timedelta) -> bool:
    return now_ms() - since_ms >= interval.total_seconds() * 1000
