"""The logs: offsets per bucket, writers, readers, and trimmable records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.lake import Table
from lakelog.options.log import shown_value
from lakelog.service.dashboard.previews.grid import Grid, grid_of
from lakelog.service.dashboard.watcher import Watched, Watcher
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.health.health import TableHealth
from lakelog.table.health.stats import LogBucketStats, LogStats

_HISTORY_NAMES: Final = {"rows": "row versions", "rows_added": "versions added"}
"""Columns of the history that count rows as the files have them: a key may have several."""


@dataclass(frozen=True)
class LogLine:
    """A log in one line; ages in ms. ``trimmable`` are records that the files and all named readers have passed."""

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
    """The logs of all tables: unreadable ones first, then by lag, longest first.

    ``unknown`` is the number of unreadable logs; ``lag`` and ``open_epochs`` are sums over the others.
    """

    logs: Sequence[LogLine]
    lag: int
    open_epochs: int
    waits: int
    unknown: int


@dataclass(frozen=True)
class LogPage:
    """The log of one table, and the work that it waits for as text."""

    name: str
    log: LogStats
    trimmable: Sequence[int]
    looked_ms: int


def log_overview(watcher: Watcher, search: str = "") -> LogOverview:
    """The view of the last inspections; reads no log."""
    buckets = [
        line for one in watcher.all()[0] if (line := _line(one)) is not None and search.lower() in line.name.lower()
    ]
    lines = sorted(buckets, key=lambda line: (line.lag is not None, -(line.lag or 0), line.name))
    return LogOverview(
        lines,
        sum(line.lag or 0 for line in lines),
        sum(line.open_epochs or 0 for line in lines),
        sum(line.waiting_ms is not None for line in lines),
        sum(bool(line.trouble) for line in lines),
    )


def log_page(watched: Watched) -> LogPage | None:
    """The log of a table, None if it has none."""
    if watched.health.figures is None or watched.health.figures.log is None:
        return None
    log = watched.health.figures.log
    return LogPage(watched.name, log, [trimmable(bucket) for bucket in log.buckets], watched.inspected_ms)


def trimmable(bucket: LogBucketStats) -> int:
    """Number of trimmable offsets: the files contain them, and all named readers have passed them."""
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


@dataclass(frozen=True)
class Column:
    """A column as SQL writes its type."""

    name: str
    type: str
    is_nullable: bool
    is_key: bool
    is_partition: bool
    comment: str


@dataclass(frozen=True)
class TablePage:
    """The properties and health of a table; option values that may be secret are masked.

    ``columns`` are those from ``first_column`` on, as many as were asked for, of ``column_count``.
    """

    name: str
    path: str
    is_keyed: bool
    buckets: int
    columns: Sequence[Column]
    first_column: int
    column_count: int
    options: dict[str, str]
    log_system: str | None
    topic: str | None
    health: TableHealth


def table_page(table: Table, health: TableHealth, first_column: int = 0, limit: int = 1_000) -> TablePage:
    """The facts of a table with some of its columns; reads its current schema."""
    schema, log = table.definition, table.log
    columns = [
        Column(
            field.name,
            type_text(field.type),
            field.type.nullable,
            field.name in schema.primary_keys,
            field.name in schema.partition_keys,
            field.description or "",
        )
        for field in schema.fields[first_column : first_column + limit]
    ]
    options = {key: shown_value(key, value) for key, value in sorted(schema.options.items())}
    return TablePage(
        table.name,
        table.path,
        schema.is_keyed,
        schema.num_buckets,
        columns,
        first_column,
        len(schema.fields),
        options,
        None if log is None else log.system,
        None if log is None else log.topic,
        health,
    )


def history_grid(table: Table, before: int | None, limit: int) -> Grid:
    """The newest snapshots, or those before one."""
    snapshots = table.history(limit + 1, before)
    names = [_HISTORY_NAMES.get(name, name) for name in snapshots.column_names]
    return grid_of([snapshots.rename_columns(names)], limit)
