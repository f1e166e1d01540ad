"""The indexes of one process's lookup joins: created on first use, refreshed, and removed when unused."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from typing import Final

from lakelog.errors import LakelogError
from lakelog.io.clock import monotonic_s, sleep
from lakelog.io.logs import fields
from lakelog.io.machine import PerProcess
from lakelog.io.names import new_attempt
from lakelog.io.scratch import ScratchDirectory
from lakelog.options.lookup import LOOKUP_ASYNC, LOOKUP_MEMORY, LOOKUP_REFRESH
from lakelog.state.sorted_run import BlockCache
from lakelog.table.lookup.index import LookupIndex, LookupSpec
from lakelog.table.lookup.stats import LookupStats, save_stats

_LOG = logging.getLogger("lakelog.lookup")
_PREFIX: Final = "lakelog-lookup-join-"
_UNUSED_S: Final = 600.0
"""Idle time after which a join's indexes are removed, if others are in use."""
_REPORT_EVERY_S: Final = 1.0
_PAUSE_S: Final = 0.01
_OLDEST_S: Final = 10.0
"""Time without a refresh (at least ten intervals) after which a task refreshes the index and raises its errors."""


class LookupTable:
    """The indexes of one lookup join in this process, by bucket, and its statistics here. Thread-safe."""

    def __init__(self, spec: LookupSpec, name: str, directory: str) -> None:
        options = spec.table.options
        self.spec, self.name, self.stats = spec, name, LookupStats()
        self.used_s = monotonic_s()
        self.is_async = options.need(LOOKUP_ASYNC)
        self.interval_s = options.need(LOOKUP_REFRESH).total_seconds()
        self._directory, self._cache = directory, BlockCache(options.need(LOOKUP_MEMORY))
        self._indexes: dict[int | None, LookupIndex] = {}
        self._lock = threading.Lock()
        self._worker, self._reported = new_attempt(), (0, 0)

    def index(self, bucket: int | None, since_s: float) -> LookupIndex:
        """The index of a bucket (None: of all), as fresh as the options require; ``since_s`` is the start of the task.

        Raises as ``LookupIndex.refresh``.
        """
        now = self.used_s = monotonic_s()
        with self._lock:
            index = self._indexes.get(bucket)
            if index is None:
                index = self._indexes[bucket] = LookupIndex(self.spec, bucket, self._directory, self._cache)
        if self.is_async:
            index.refresh(now - max(_OLDEST_S, 10 * self.interval_s))
        else:
            index.refresh(max(since_s, now - self.interval_s))
        return index

    def refresh(self) -> None:
        """Refreshes the indexes that are older than the interval. Called by the thread."""
        for index in list(self._indexes.values()):
            if index.begun:
                index.refresh(monotonic_s() - self.interval_s)

    def report(self) -> None:
        """Writes the statistics if they have changed. An error here does not affect the join."""
        stats, indexes = self.stats, list(self._indexes.values())
        reported = (stats.probes, stats.retried)
        if reported == self._reported:
            return
        self._reported = reported
        try:
            stats.begun = sum(index.begun for index in indexes)
            stats.index_rows = sum(index.rows for index in indexes)
            stats.index_bytes = sum(index.disk_bytes for index in indexes)
            stats.memory_bytes = self._cache.bytes
            stats.block_hits, stats.block_loads = self._cache.hits, self._cache.loads
            save_stats(self.spec.table, self.name, self._worker, stats)
        except LakelogError as failure:
            _LOG.warning("statistics of lookup join %s were not saved: %s", self.name, failure)

    def close(self) -> None:
        self.report()
        for index in self._indexes.values():
            index.close()


class LookupTables:
    """All lookup joins of this process; its files are stored in a separate directory under ``root``."""

    def __init__(self, root: str | None = None) -> None:
        self._scratch = ScratchDirectory(root or tempfile.gettempdir(), _PREFIX)
        self._tables: dict[tuple[object, ...], LookupTable] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        threading.Thread(target=self._keep_fresh, name="lakelog-lookup", daemon=True).start()

    def table(self, spec: LookupSpec, name: str) -> LookupTable:
        hints = tuple(sorted(spec.table.hints.items()))
        key = (spec.table.address, spec.table.schema.id, hints, spec.on, spec.columns, name)
        with self._lock:
            table = self._tables.get(key)
            if table is None:
                directory = os.path.join(self._scratch.path, new_attempt())
                table = self._tables[key] = LookupTable(spec, name, directory)
            return table

    def close(self) -> None:
        """Stops the thread and deletes all files."""
        self._stopped.set()
        for table in self._tables.values():
            table.close()
        self._scratch.close()

    def _keep_fresh(self) -> None:
        reported = monotonic_s()
        while not self._stopped.is_set():
            tables = list(self._tables.values())
            for table in tables:
                if table.is_async:
                    try:
                        table.refresh()
                    except Exception as failure:  # the thread continues; a task that waits too long gets the same error
                        name = table.spec.table.name
                        _LOG.warning("index of table %s was not refreshed: %s", name, failure, extra=fields(table=name))
            if monotonic_s() > reported + _REPORT_EVERY_S:
                reported = monotonic_s()
                for table in tables:
                    table.report()
                self._forget_unused()
            sleep(min([_REPORT_EVERY_S, *(max(_PAUSE_S, table.interval_s) for table in tables if table.is_async)]))

    def _forget_unused(self) -> None:
        limit = monotonic_s() - _UNUSED_S
        with self._lock:
            unused = [key for key, table in self._tables.items() if table.used_s < limit]
            unused_tables = [self._tables.pop(key) for key in unused]
        for table in unused_tables:
            table.close()


_HERE: Final[PerProcess[str, LookupTables]] = PerProcess()


def lookup_tables(root: str | None = None) -> LookupTables:
    """The lookup joins of this process, created on first use; ``root`` is the directory of its files."""
    return _HERE.get("", lambda: LookupTables(root))
