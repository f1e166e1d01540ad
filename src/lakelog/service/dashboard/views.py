"""Data of the pages of all tables: the overview, and the logs with offsets, writers, readers and trimmable records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.lake import Table
from lakelog.options.log import shown_value
from lakelog.options.view import VIEW
from lakelog.service.dashboard.previews.grid import Grid, grid_of, in_utc
from lakelog.service.dashboard.watcher import Watched, Watcher
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.health.health import FAIR, GOOD, TableHealth
from lakelog.table.health.score import FINDINGS, Finding
from lakelog.table.health.stats import LogBucketStats, LogStats

_FINDINGS: Final = 20
"""Maximum number of tables with findings on the overview; the Optimizing page has all."""


@dataclass(frozen=True)
class TableFinding:
    """A current problem of a table."""

    table: str
    finding: Finding


@dataclass(frozen=True)
class TableLine:
    """One table in a list. Times are ms since 1970. None means unknown, or that the table has no such value.

    ``log_ms`` and ``files_ms`` are the times of the newest row of each store, and ``lag`` the number of rows that wait
    in the log for the files. ``rows_unit`` is ``rows``, or ``row versions`` if only a read can count the rows.
    ``finding`` is the worst problem, ``need`` the most urgent work with its reason. ``is_readable`` is False for a
    table that cannot be opened, ``log_is_known`` for one whose log could not be read.
    """

    name: str
    looked_ms: int
    score: int
    finding: str = ""
    need: str = ""
    is_readable: bool = True
    log_is_known: bool = True
    is_keyed: bool | None = None
    has_log: bool | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    snapshot: int | None = None
    log_ms: int | None = None
    files_ms: int | None = None
    lag: int | None = None
    rows_unit: str = "rows"


@dataclass(frozen=True)
class Overview:
    """Totals, and a page of the tables (``shown`` of ``matching``); ``looked`` of ``known`` are inspected so far.

    ``rows_unit`` is the unit of ``rows``: that of the tables, if all have exact counts. Sums leave out ``unreadable``
    tables and ``unknown_logs``. ``findings`` has the worst finding of each table, for the first of the
    ``finding_count`` tables with any. ``needing`` tables have a finding or a need. ``troubles`` are problems of
    catalogs and of processes that the dashboard has started; ``stages`` is what those are doing. ``scores`` counts
    the tables by health: good, fair, bad.
    """

    known: int
    looked: int
    rows: int
    rows_unit: str
    bytes: int
    files: int
    with_log: int
    lag: int
    unreadable: int
    unknown_logs: int
    needing: int
    findings: Sequence[TableFinding]
    finding_count: int
    scores: tuple[int, int, int]
    troubles: dict[str, str]
    stages: dict[str, str]
    databases: Sequence[str]
    matching: int
    tables: Sequence[TableLine]


SORTS = {
    "name": lambda line: line.name,
    "score": lambda line: (line.score, line.name),
    "size": lambda line: (-(line.bytes or 0), line.name),
    "rows": lambda line: (-(line.rows or 0), line.name),
    "files": lambda line: (-(line.files or 0), line.name),
    "lag": lambda line: (line.log_is_known, -(line.lag or 0), line.name),
    "newest": lambda line: (-max(line.log_ms or 0, line.files_ms or 0), line.name),
}
"""Possible orders of a list of tables."""


@dataclass(frozen=True)
class Choice:
    """The tables of a list: those of a database whose name contains a text, in an order, ``is_reversed`` or not."""

    search: str = ""
    database: str = ""
    sort: str = "score"
    is_reversed: bool = False

    def of(self, lines: Sequence[TableLine]) -> list[TableLine]:
        chosen = [
            line
            for line in lines
            if self.search.lower() in line.name.lower() and self.database in ("", _database(line.name))
        ]
        return sorted(chosen, key=SORTS[self.sort], reverse=self.is_reversed)


def _database(name: str) -> str:
    return name.rpartition(".")[0]


def overview(watcher: Watcher, choice: Choice = Choice(), offset: int = 0, limit: int = 100) -> Overview:
    """The chosen tables, worst first by default. Reads no storage."""
    tables, known = watcher.all()
    lines = [line_of(one) for one in tables]
    findings = _worst_of_each(findings_of(tables))
    matching = choice.of(lines)
    return Overview(
        known=known,
        looked=len(lines),
        rows=sum(line.rows or 0 for line in lines),
        rows_unit=max((line.rows_unit for line in lines), key=len, default="rows"),
        bytes=sum(line.bytes or 0 for line in lines),
        files=sum(line.files or 0 for line in lines),
        with_log=sum(bool(line.has_log) for line in lines),
        lag=sum(line.lag or 0 for line in lines),
        unreadable=sum(not line.is_readable for line in lines),
        unknown_logs=sum(not line.log_is_known for line in lines),
        needing=sum(bool(line.finding or line.need) for line in lines),
        findings=findings[:_FINDINGS],
        finding_count=len(findings),
        scores=(
            sum(line.score >= GOOD for line in lines),
            sum(FAIR <= line.score < GOOD for line in lines),
            sum(line.score < FAIR for line in lines),
        ),
        troubles=watcher.troubles(),
        stages=watcher.stages(),
        databases=sorted({_database(line.name) for line in lines}),
        matching=len(matching),
        tables=matching[offset : offset + limit],
    )


def findings_of(tables: Sequence[Watched]) -> list[TableFinding]:
    """The findings of tables, worst kind first."""
    all_ = [TableFinding(one.name, finding) for one in tables for finding in one.health.findings]
    return sorted(all_, key=lambda one: (FINDINGS.index(one.finding.kind), one.table))


def _worst_of_each(findings: Sequence[TableFinding]) -> list[TableFinding]:
    """The first finding of each table."""
    worst: dict[str, TableFinding] = {}
    for one in findings:
        worst.setdefault(one.table, one)
    return list(worst.values())


def line_of(watched: Watched) -> TableLine:
    """The last inspection of a table as one line of the list."""
    health = watched.health
    finding = health.findings[0].reason if health.findings else ""
    need = f"{health.needs[0].kind}: {health.needs[0].reason}" if health.needs else ""
    stats = health.figures
    if stats is None:
        return TableLine(watched.name, watched.inspected_ms, health.score, finding, need, is_readable=False)
    log = stats.log
    return TableLine(
        watched.name,
        watched.inspected_ms,
        health.score,
        finding,
        need,
        True,
        log is None or not log.trouble,
        stats.is_keyed,
        log is not None,
        stats.rows,
        stats.bytes,
        stats.files,
        stats.snapshots.newest_id,
        None if log is None else log.newest_ms,
        stats.snapshots.last_write_ms,
        health.lag,
        stats.rows_unit,
    )


_HISTORY_NAMES: Final = {
    "version": "snapshot", "schema_id": "schema", "rows": "row versions", "rows_added": "versions added",
    "changes": "changelog rows",
}  # fmt: skip
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
    options = {key: shown_value(key, value) for key, value in sorted(schema.options.items()) if key != VIEW.key}
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
    snapshots = table.history(limit + 1, before).to_arrow()
    names = [_HISTORY_NAMES.get(name, name) for name in snapshots.column_names]
    return grid_of([in_utc(snapshots.rename_columns(names))], limit)
