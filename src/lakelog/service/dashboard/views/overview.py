"""Overview of all tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.service.dashboard.watcher import Watched, Watcher
from lakelog.table.health.health import FAIR, GOOD
from lakelog.table.health.score import FINDINGS, Finding

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
    matching: int
    tables: Sequence[TableLine]


SORTS = {
    "name": lambda line: line.name,
    "score": lambda line: (line.score, line.name),
    "size": lambda line: (-(line.bytes or 0), line.name),
    "files": lambda line: (-(line.files or 0), line.name),
    "lag": lambda line: (line.log_is_known, -(line.lag or 0), line.name),
    "newest": lambda line: (-max(line.log_ms or 0, line.files_ms or 0), line.name),
}
"""Possible orders of a list of tables."""


def overview(watcher: Watcher, search: str = "", sort: str = "score", offset: int = 0, limit: int = 100) -> Overview:
    """The tables whose name contains ``search``, worst first by default. Reads no storage."""
    tables, known = watcher.all()
    lines = [line_of(one) for one in tables]
    findings = _worst_of_each(findings_of(tables))
    matching = sorted((line for line in lines if search.lower() in line.name.lower()), key=SORTS[sort])
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
