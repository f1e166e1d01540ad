"""Time series of tables for the plots: one row per inspection, with a lower resolution for older rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    Column,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
)

from lakelog.errors import InvalidRequest
from lakelog.io.clock import now_ms

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_THINNED: Final = ((2 * _HOUR_MS, _MINUTE_MS), (48 * _HOUR_MS, 15 * _MINUTE_MS))
"""Age → resolution: of rows older than the first, one in each interval of the second is kept."""
_KEEP_MS: Final = 60 * 24 * _HOUR_MS
_CLEAN_EVERY: Final = 2_000

_METADATA: Final = MetaData()
_SAMPLES: Final = Table(
    "figures",
    _METADATA,
    Column("name", String, primary_key=True),
    Column("time_ms", Integer, primary_key=True),
    Column("rows", Float),
    Column("bytes", Float),
    Column("files", Float),
    Column("sorted_runs", Float),
    Column("level0_files", Float),
    Column("snapshots", Float),
    Column("score", Float),
    Column("log_end", Float),
    Column("lag", Float),
    Column("open_epochs", Float),
    Column("log_age_ms", Float),
    Column("files_age_ms", Float),
    Column("waiting_ms", Float),
)


_TOTALS: Final = Table(
    "totals",
    _METADATA,
    Column("time_ms", Integer, primary_key=True),
    *(Column(name, Float) for name in ("bytes", "rows", "lag", "waiting_ms", "good", "fair", "bad")),
)


@dataclass(frozen=True)
class Sample:
    """The metrics of one inspection; None if the table lacks the subject, such as a log. Ages and waits are in ms."""

    name: str
    time_ms: int
    rows: float | None = None
    bytes: float | None = None
    files: float | None = None
    sorted_runs: float | None = None
    level0_files: float | None = None
    snapshots: float | None = None
    score: float | None = None
    log_end: float | None = None
    lag: float | None = None
    open_epochs: float | None = None
    log_age_ms: float | None = None
    files_age_ms: float | None = None
    waiting_ms: float | None = None


@dataclass(frozen=True)
class Total:
    """The totals of all tables; ``good``, ``fair`` and ``bad`` count them by health."""

    time_ms: int
    bytes: float
    rows: float
    lag: float
    waiting_ms: float
    good: float
    fair: float
    bad: float


@dataclass(frozen=True)
class Plot:
    """Lines of one plot: ``times_ms`` since 1970, and for each name as many values (None: unknown).

    The axis of the plot reaches from ``from_ms`` to ``to_ms``, even without values.
    """

    from_ms: int
    to_ms: int
    names: Sequence[str]
    times_ms: Sequence[int]
    values: Sequence[Sequence[float | None]]
    unit: str


PLOTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "freshness": ("ms", {"age of the oldest row that waits for files": "waiting_ms"}),
    "lag": ("rows", {"rows that wait for files": "lag"}),
    "throughput": ("records/s", {"records per second": "log_end"}),
    "size": ("bytes", {"data files": "bytes"}),
    "files": ("files", {"data files": "files", "level 0": "level0_files", "sorted runs": "sorted_runs"}),
    "rows": ("rows", {"rows or row versions in files": "rows"}),
    "score": ("score", {"health": "score"}),
}
"""Plot of a table → its unit, and its lines by their column."""
TOTAL_PLOTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "health": ("tables", {"good": "good", "fair": "fair", "bad": "bad"}),
    "freshness": ("ms", {"age of the oldest row that waits for files": "waiting_ms"}),
    "lag": ("rows", {"rows that wait for files": "lag"}),
    "size": ("bytes", {"data files": "bytes"}),
}
"""Plot of all tables → the same."""
_RATES: Final = ("throughput",)


class StatsHistory:
    """A SQLite file of the dashboard with mode 0600. If it is deleted, only the plots lose their past."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        path.chmod(0o600)  # SQLite gives its other files the same mode
        self._engine = create_engine(f"sqlite:///{path}")
        event.listen(self._engine, "connect", _fast)
        _METADATA.create_all(self._engine)
        self._lock = threading.Lock()
        self._added = 0

    def add(self, samples: Sequence[Sample]) -> None:
        """Stores samples; at times it reduces the resolution of old ones."""
        if not samples:
            return
        with self._lock, self._engine.begin() as connection:
            connection.execute(insert(_SAMPLES).prefix_with("OR REPLACE"), [_row(sample) for sample in samples])
            self._added += len(samples)
            if self._added >= _CLEAN_EVERY:
                self._added = 0
                self._thin(connection)

    def add_total(self, total: Total) -> None:
        """Stores a sample of all tables."""
        with self._lock, self._engine.begin() as connection:
            connection.execute(insert(_TOTALS).prefix_with("OR REPLACE"), vars(total))

    def plot(self, name: str, plot: str, since_ms: int, points: int = 400) -> Plot:
        """A plot of one table since a time, with at most ``points`` per line. Raises InvalidRequest."""
        return self._plot(_SAMPLES, PLOTS, plot, [_SAMPLES.c.name == name], since_ms, points)

    def total_plot(self, plot: str, since_ms: int, points: int = 400) -> Plot:
        """A plot of all tables since a time. Raises InvalidRequest."""
        return self._plot(_TOTALS, TOTAL_PLOTS, plot, [], since_ms, points)

    def _plot(
        self,
        table: Table,
        plots: Mapping[str, tuple[str, dict[str, str]]],
        plot: str,
        conditions: Sequence[Any],
        since_ms: int,
        points: int,
    ) -> Plot:
        if plot not in plots:
            raise InvalidRequest(f"unknown plot '{plot}'; known: {', '.join(plots)}")
        unit, lines = plots[plot]
        now, time = now_ms(), table.c.time_ms
        step = max(1, (now - since_ms) // points)
        columns = [table.c[column] for column in lines.values()]
        which = select(func.max(time), *columns).where(*conditions, time >= since_ms)
        with self._engine.connect() as connection:
            found = connection.execute(which.group_by(time // step).order_by(time)).all()
        rows = _rates([tuple(row) for row in found]) if plot in _RATES else [tuple(row) for row in found]
        times = [row[0] for row in rows]
        values = [[row[at] for row in rows] for at in range(1, len(columns) + 1)]
        return Plot(since_ms, now, list(lines), times, values, unit)

    def close(self) -> None:
        self._engine.dispose()

    def _thin(self, connection: Any) -> None:
        now = now_ms()
        for table, keys in ((_SAMPLES, [_SAMPLES.c.name]), (_TOTALS, [])):
            time = table.c.time_ms
            connection.execute(delete(table).where(time < now - _KEEP_MS))
            for older_ms, step_ms in _THINNED:
                old = time < now - older_ms
                kept = select(func.max(time)).where(old).group_by(*keys, time // step_ms).scalar_subquery()
                connection.execute(delete(table).where(old, time.not_in(kept)))


def _row(sample: Sample) -> dict[str, Any]:
    """Values for SQLite; a sum may be an integer beyond 64 bits."""
    return {
        name: float(value) if isinstance(value, int) and name != "time_ms" else value
        for name, value in vars(sample).items()
    }


def _rates(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Differences of neighbours per second; a counter that decreases belongs to a log that was created again."""
    out = []
    for (before_ms, before), (now, end) in pairwise((row[0], row[1]) for row in rows):
        known = before is not None and end is not None and end >= before
        out.append((now, (end - before) * 1000 / max(1, now - before_ms) if known else None))
    return out


def _fast(connection: Any, _: object) -> None:
    """Opens the file without fsync: a power failure may lose samples."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
