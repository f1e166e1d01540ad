"""The current health of tables as samples, read on request and kept for a short time."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from lakelog.errors import LakelogError, NotFound
from lakelog.io.clock import monotonic_s
from lakelog.io.logs import fields
from lakelog.io.metrics import METER, Sample, merged
from lakelog.io.shared_counts import shared_counts
from lakelog.logstore.clients import close_clients
from lakelog.options import metrics as m
from lakelog.options.environment import METRICS_DIR
from lakelog.table.health.health import TableHealth
from lakelog.table.health.stats import LogStats, ViewStats

if TYPE_CHECKING:
    from lakelog.lake import Lake


_LOG: Final = logging.getLogger("lakelog.metrics")
_CACHE_S: Final = 5.0
"""Seconds for which the samples of a collection are reused, so that several scrapers cost no more than one."""
_TIMEOUT_S: Final = 8.0
"""Maximum seconds of a wait for a collection; then the previous samples are returned (Prometheus waits 10 s)."""
_THREADS: Final = 8


class TableStates:
    """The gauges of all tables of some lakes."""

    def __init__(self, lakes: Sequence[Lake]) -> None:
        self._lakes = tuple(lakes)
        self._lock = threading.Lock()
        self._samples: dict[str, tuple[Sample, ...]] = {}
        self._collected_s = float("-inf")
        self._collection: Future[None] | None = None
        self._threads = ThreadPoolExecutor(_THREADS + 1, "lakelog-metrics-collect") if lakes else None

    def samples(self) -> list[Sample]:
        """The samples of a collection that is at most a few seconds old; for slow tables those of the previous one."""
        if self._threads is None:
            return []
        with self._lock:
            if (self._collection is None or self._collection.done()) and monotonic_s() - self._collected_s > _CACHE_S:
                self._collection = self._threads.submit(self._collect_all)
            collection = self._collection
        if collection is not None:
            wait([collection], _TIMEOUT_S)
        with self._lock:
            return [sample for samples in self._samples.values() for sample in samples]

    def _collect_all(self) -> None:
        try:
            seen: set[str] = set()
            running: list[Future[None]] = []
            for lake in self._lakes:
                for catalog, name in self._names(lake):
                    seen.update((f"catalog {catalog}", f"space of {catalog}") if name is None else (name,))
                    if name is not None and self._threads is not None:
                        running.append(self._threads.submit(self._collect_table, lake, catalog, name))
            wait(running)
            with self._lock:
                self._samples = {key: samples for key, samples in self._samples.items() if key in seen}
        finally:
            self._collected_s = monotonic_s()

    def _names(self, lake: Lake) -> Iterator[tuple[str, str | None]]:
        """The subjects: catalogs (without a table name), and their tables."""
        for catalog in lake.list_catalogs():
            names = None
            try:
                names = lake.list_tables(catalog=catalog)
            except LakelogError as why:
                _LOG.warning("catalog %s cannot be listed: %s", catalog, why)
            self._store(f"catalog {catalog}", (Sample(m.CATALOG_UP, (catalog,), float(names is not None)),))
            yield catalog, None
            for name in names or ():
                yield catalog, name

    def _collect_table(self, lake: Lake, catalog: str, name: str) -> None:
        started = monotonic_s()
        try:
            health = lake.health(name)
            space = None if health.figures is None else health.figures.space
            if space is not None:
                self._store(f"space of {catalog}", (Sample(m.WAREHOUSE_FREE, (catalog,), space.free),))
            if health.figures is None:
                _LOG.warning("table %s: %s", name, health.findings[0].reason, extra=fields(table=name))
            samples = tuple(health_samples(health))
        except NotFound:  # dropped in the meantime
            self._store(name, ())
            return
        finally:
            close_clients()  # otherwise each thread would hold a client for each log
        self._store(name, (*samples, Sample(m.INSPECTION_DURATION, (name,), monotonic_s() - started)))

    def _store(self, key: str, samples: tuple[Sample, ...]) -> None:
        with self._lock:
            self._samples[key] = samples


def health_samples(health: TableHealth) -> Iterator[Sample]:
    """The health of a table as samples. Pure."""
    table, stats = health.table, health.figures
    yield Sample(m.HEALTH, (table,), health.score)
    yield Sample(m.TABLE_UP, (table,), float(stats is not None))
    yield from (Sample(m.FINDINGS, (table, kind), 1) for kind in sorted({one.kind for one in health.findings}))
    if stats is None:
        return
    history = stats.snapshots
    plain = {
        m.WAITS: len(health.waits),
        m.NEWEST_SNAPSHOT: history.newest_id or 0,
        m.SNAPSHOTS: history.kept,
        m.EXPIRABLE: history.expirable,
        m.FILES: stats.files,
        m.FILE_BYTES: stats.bytes,
        m.FILE_ROWS: sum(bucket.rows for bucket in stats.buckets),
        m.SMALL_FILES: stats.small_files,
        m.LEVEL0_FILES: stats.level0_files,
        m.MOST_RUNS: stats.most_runs,
        m.BACKLOG_FILES: sum(bucket.due_files for bucket in stats.buckets),
        m.BACKLOG_BYTES: sum(bucket.due_bytes for bucket in stats.buckets),
        m.REJECTED: stats.rejected,
    }
    yield from (Sample(metric, (table,), value) for metric, value in plain.items())
    yield from (Sample(m.NEEDS, (table, need.kind), need.urgency) for need in health.needs)
    if stats.ingest is not None:
        yield Sample(m.INGEST_UNREAD, (table,), stats.ingest.unread_bytes)
        yield Sample(m.INGEST_HELD, (table,), stats.ingest.held_bytes)
        yield Sample(m.INGEST_REPORT_AGE, (table,), _seconds(stats.looked_ms, stats.ingest.reported_ms))
    if stats.replica is not None:
        yield Sample(m.REPLICA_LAG, (table,), stats.replica.lag_ms(stats.looked_ms) / 1000)
    if stats.view is not None:
        yield from _view_samples(table, stats.view, stats.looked_ms)
    log = stats.log
    newest = history.last_write_ms if log is None or log.trouble else log.files_ms
    if newest is not None:
        yield Sample(m.FRESHNESS, (table, "files"), _seconds(stats.looked_ms, newest))
    if log is not None:
        yield Sample(m.LOG_UP, (table,), float(not log.trouble))
        if not log.trouble:
            yield from _log_samples(table, log, stats.looked_ms)


def _view_samples(table: str, view: ViewStats, now_ms: int) -> Iterator[Sample]:
    for one in view.sources:
        lag_ms = one.lag_ms(now_ms)
        if lag_ms is not None:
            yield Sample(m.VIEW_LAG, (table, one.name), lag_ms / 1000)
        if one.behind is not None:
            yield Sample(m.VIEW_BEHIND, (table, one.name), one.behind)


def _log_samples(table: str, log: LogStats, now_ms: int) -> Iterator[Sample]:
    if log.newest_ms is not None:
        yield Sample(m.FRESHNESS, (table, "log"), _seconds(now_ms, log.newest_ms))
    yield Sample(m.OLDEST_WAITING, (table,), _seconds(now_ms, log.waiting_ms))
    yield Sample(m.OPEN_EPOCHS, (table,), log.open_epochs or 0)
    yield Sample(m.OLDEST_OPEN, (table,), _seconds(now_ms, log.oldest_open_ms))
    for bucket in log.buckets:
        labels = (table, str(bucket.bucket))
        yield Sample(m.LOG_END, labels, bucket.end)
        yield Sample(m.LOG_APPLIED, labels, bucket.applied)
        yield Sample(m.LOG_LAG, labels, bucket.lag)
        yield Sample(m.LOG_ONLY, labels, bucket.log_only)
    for reader in log.readers:
        yield Sample(m.READER_LAG, (table, reader.name), reader.lag)


def _seconds(now_ms: int, since_ms: int | None) -> float:
    """The age of a time; 0 for None, and for a time in the future from another clock."""
    return 0.0 if since_ms is None else max(0.0, (now_ms - since_ms) / 1000)


if TYPE_CHECKING:
    from lakelog.lake import Lake


_CREATED: Final[list[str]] = []
"""The directory that this process has created for its children, if any."""


def collect_from_children() -> str:
    """Creates, once, a directory through which new child processes pass their counts on; returns it."""
    inherited = os.environ.get(METRICS_DIR)
    if inherited:
        os.makedirs(inherited, exist_ok=True)
        return inherited
    directory = tempfile.mkdtemp(prefix="lakelog-metrics-")
    _CREATED.append(directory)
    os.environ[METRICS_DIR] = directory
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


class SampleSource:
    """All current samples; created once per exporter."""

    def __init__(self, lakes: Sequence[Lake] = ()) -> None:
        self._states = TableStates(lakes)

    def samples(self) -> list[Sample]:
        """Counts since the processes began, then the gauges of the tables."""
        directory = os.environ.get(METRICS_DIR)
        children = shared_counts(directory) if directory else []
        return [*merged([*METER.samples(), *children]), *self._states.samples()]
