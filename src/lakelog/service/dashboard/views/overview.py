"""All tables at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.service.dashboard.watcher import Watched, Watcher


@dataclass(frozen=True)
class TableLine:
    """One table in a list. Times are ms since 1970; ``trouble`` is why it could not be looked at.

    ``log_ms`` and ``files_ms`` are when the newest row of each store was written, ``lag`` the rows that are only in the
    log, ``need`` the most urgent thing to do and why.
    """

    name: str
    looked_ms: int
    trouble: str = ""
    is_keyed: bool = False
    has_log: bool = False
    rows: int = 0
    bytes: int = 0
    files: int = 0
    snapshot: int | None = None
    log_ms: int | None = None
    files_ms: int | None = None
    lag: int | None = None
    score: int | None = None
    need: str = ""


@dataclass(frozen=True)
class Overview:
    """Totals, and a page of the tables (``shown`` of ``matching``); ``looked`` of ``known`` were looked at so far."""

    known: int
    looked: int
    rows: int
    bytes: int
    files: int
    with_log: int
    lag: int
    needing: int
    troubles: dict[str, str]
    matching: int
    tables: Sequence[TableLine]


SORTS = {
    "name": lambda line: line.name,
    "score": lambda line: (line.score is None, line.score, line.name),
    "size": lambda line: (-line.bytes, line.name),
    "files": lambda line: (-line.files, line.name),
    "lag": lambda line: (-(line.lag or 0), line.name),
    "newest": lambda line: (-max(line.log_ms or 0, line.files_ms or 0), line.name),
}
"""Orders that a list of tables may have."""


def overview(watcher: Watcher, search: str = "", sort: str = "score", offset: int = 0, limit: int = 100) -> Overview:
    """The tables whose name contains ``search``, the worst first unless asked otherwise. Touches no storage."""
    found, known = watcher.all()
    lines = [line_of(one) for one in found]
    matching = sorted((line for line in lines if search.lower() in line.name.lower()), key=SORTS[sort])
    return Overview(
        known=known,
        looked=len(lines),
        rows=sum(line.rows for line in lines),
        bytes=sum(line.bytes for line in lines),
        files=sum(line.files for line in lines),
        with_log=sum(line.has_log for line in lines),
        lag=sum(line.lag or 0 for line in lines),
        needing=sum(bool(line.need or line.trouble) for line in lines),
        troubles=watcher.troubles(),
        matching=len(matching),
        tables=matching[offset : offset + limit],
    )


def line_of(watched: Watched) -> TableLine:
    """A table's last look as one line."""
    health = watched.health
    if health is None:
        return TableLine(watched.name, looked_ms=watched.looked_ms, trouble=watched.trouble)
    figures, log = health.figures, health.figures.log
    return TableLine(
        watched.name,
        watched.looked_ms,
        log.trouble if log else "",
        figures.is_keyed,
        log is not None,
        sum(bucket.rows for bucket in figures.buckets),
        figures.bytes,
        figures.files,
        figures.snapshots.newest_id,
        None if log is None else log.newest_ms,
        figures.snapshots.last_write_ms,
        None if log is None else log.lag,
        health.score,
        f"{health.needs[0].kind}: {health.needs[0].reason}" if health.needs else "",
    )
