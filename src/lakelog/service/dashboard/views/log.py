"""The logs: per bucket how far it is, who writes, who reads, and what may be trimmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.service.dashboard.watcher import Watched, Watcher
from lakelog.table.health.stats import LogBucketFigures, LogFigures


@dataclass(frozen=True)
class LogLine:
    """A log at a glance; ages in ms. ``trimmable``: records that the files and all named readers have passed."""

    name: str
    buckets: int
    lag: int | None
    open_epochs: int | None
    oldest_open_ms: int | None
    newest_ms: int | None
    files_ms: int | None
    waiting_ms: int | None
    writers: int
    readers: int
    trimmable: int | None
    trouble: str


@dataclass(frozen=True)
class LogOverview:
    """The logs of all tables, those that cannot be read first, then the longest lag.

    ``unknown`` logs could not be read; ``lag`` and ``open_epochs`` are sums over the others.
    """

    logs: Sequence[LogLine]
    lag: int
    open_epochs: int
    waits: int
    unknown: int


@dataclass(frozen=True)
class LogPage:
    """The log of one table with what it waits for, in words."""

    name: str
    log: LogFigures
    trimmable: Sequence[int]
    looked_ms: int


def log_overview(watcher: Watcher, search: str = "") -> LogOverview:
    """What the last looks found; touches no log."""
    found = [
        line for one in watcher.all()[0] if (line := _line(one)) is not None and search.lower() in line.name.lower()
    ]
    lines = sorted(found, key=lambda line: (line.lag is not None, -(line.lag or 0), line.name))
    return LogOverview(
        lines,
        sum(line.lag or 0 for line in lines),
        sum(line.open_epochs or 0 for line in lines),
        sum(line.waiting_ms is not None for line in lines),
        sum(bool(line.trouble) for line in lines),
    )


def log_page(watched: Watched) -> LogPage | None:
    """The log of a table, None when it has none."""
    if watched.health.figures is None or watched.health.figures.log is None:
        return None
    log = watched.health.figures.log
    return LogPage(watched.name, log, [trimmable(bucket) for bucket in log.buckets], watched.looked_ms)


def trimmable(bucket: LogBucketFigures) -> int:
    """Offsets from the first one on that nobody needs: the files have them, and the named readers have passed them."""
    safe = bucket.applied if bucket.read_up_to is None else min(bucket.applied, bucket.read_up_to)
    return max(0, safe - bucket.first)


def _line(watched: Watched) -> LogLine | None:
    page = log_page(watched)
    if page is None:
        return None
    log = page.log
    return LogLine(
        watched.name,
        len(log.buckets),
        log.lag,
        log.open_epochs,
        log.oldest_open_ms,
        log.newest_ms,
        log.files_ms,
        log.waiting_ms,
        len(log.writers),
        len(log.readers),
        None if log.trouble else sum(page.trimmable),
        log.trouble,
    )
