"""Inspects all tables periodically, so that pages show their metrics at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.lake import Lake
from lakelog.service.dashboard.inspections import Inspections
from lakelog.service.dashboard.time_series import Sample, StatsHistory, Total
from lakelog.table.health.health import FAIR, GOOD, TableHealth, unreadable_health

_LOG: Final = logging.getLogger("lakelog.dashboard")
_LIST_S: Final = 10.0
_EVERY_S: Final = 10.0
_WATCHED_EVERY_S: Final = 1.0
_SEEN_FOR_S: Final = 30.0
"""Seconds after a request for which a table counts as watched: two refreshes of an open page."""
_SHARE: Final = 0.1
"""Share of one thread's time for tables that no page shows; expensive inspections are made less often."""
_THREADS: Final = 8
_LATE_S: Final = 30.0
"""Seconds after which an inspection is late: pages stop waiting, and its previous result is no longer shown."""
_PAGE_S: Final = 5.0
"""Maximum seconds that a page waits for an inspection."""
_ROUND_S: Final = 0.2
_STOP_S: Final = 3.0


@dataclass(frozen=True)
class Watched:
    """A table at its last inspection (``inspected_ms``, ms since 1970), and the duration in seconds."""

    name: str
    inspected_ms: int
    health: TableHealth
    duration_s: float = 0.0


class Watcher:
    """Holds the last inspection of each table of all catalogs. Thread-safe.

    ``checks`` return the problems of processes that were started for the dashboard, ``stages`` their current steps. If
    an inspection takes longer than ``late_s``, the table counts as unreadable until it returns.
    """

    def __init__(
        self,
        lake: Lake,
        history: StatsHistory,
        checks: Mapping[str, Callable[[], str]] | None = None,
        late_s: float = _LATE_S,
        stages: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self.lake, self.history, self._checks = lake, history, checks or {}
        self._stages = stages or {}
        self._found: dict[str, Watched] = {}
        self._names: list[str] = []
        self._due: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._trouble: dict[str, str] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._inspections = Inspections(self._inspect, _THREADS, late_s)
        self._samples: list[Sample] = []
        self._fault = ""
        self._round_s = monotonic_s()

    def start(self) -> None:
        """Starts the inspections. Called when the server starts."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the running inspections, except long ones."""
        self._stopped.set()
        self._thread.join(_STOP_S)
        self._inspections.wait_for_all(_STOP_S)

    def all(self) -> tuple[Sequence[Watched], int]:
        """The inspected tables by name, and the number of all tables."""
        late = self._inspections.late()
        with self._lock:
            names, tables = self._names, {**self._found, **{name: _late(name, age) for name, age in late.items()}}
        return [tables[name] for name in names if name in tables], len(names)

    def troubles(self) -> dict[str, str]:
        """Catalog → the error of its listing, and process of the dashboard → the reason of its end."""
        with self._lock:
            troubles = {f"catalog {name}": f"its tables cannot be listed: {why}" for name, why in self._trouble.items()}
            fault, age = self._fault, monotonic_s() - self._round_s
        if age > self._inspections.late_s and self._thread.is_alive():
            fault = f"a listing of tables has not ended for {age:.0f} s"
        if fault:
            troubles["dashboard"] = f"statistics of tables may be old: {fault}"
        return {name: why for name, check in self._checks.items() if (why := check())} | troubles

    def stages(self) -> dict[str, str]:
        """Process of the dashboard → its current step, and the time since its start."""
        return {name: stage for name, of in self._stages.items() if (stage := of())}

    def need(self, name: str) -> Watched:
        """The newest inspection of a table, made now if the last one is older than a second. Raises NotFound."""
        now = monotonic_s()
        with self._lock:
            self._seen[name] = now
            observation, due = self._found.get(name), self._due.get(name, 0.0)
        if observation is not None and now_ms() - observation.inspected_ms < _WATCHED_EVERY_S * 1000:
            return observation
        if (age := self._inspections.late().get(name)) is not None:
            return _late(name, age)
        if observation is not None and observation.duration_s > _WATCHED_EVERY_S:  # the next refresh shows the new one
            with self._lock:
                self._due[name] = min(due, now)
            return observation
        try:
            return self._inspections.start(name).result(_PAGE_S)
        except TimeoutError:
            return observation or _late(name, _PAGE_S)

    def mark_watched(self, name: str) -> None:
        """Marks a table as watched: it is inspected each second for a while."""
        with self._lock:
            if name in self._found:
                now = monotonic_s()
                self._due[name] = min(self._due[name], now + _WATCHED_EVERY_S)
                self._seen[name] = now

    def _run(self) -> None:
        listed_s = summed_s = -_LIST_S
        while not self._stopped.is_set():
            now = self._round_s = monotonic_s()
            try:
                if now - listed_s >= _LIST_S:
                    listed_s = now
                    self._list()
                is_all = self._inspections.start_some(self._due_names(now))
                self._keep_samples()
                tables, known = self.all()
                if now - summed_s >= _EVERY_S and tables and len(tables) == known:
                    summed_s = now
                    self.history.add_total(total_of([one.health for one in tables]))
            except Exception as failure:  # it is shown together with metrics of other rounds
                _LOG.exception("a round of inspections failed")
                self._fault = f"{type(failure).__name__}: {failure}"
                self._stopped.wait(_WATCHED_EVERY_S)
                continue
            self._fault = ""
            if is_all:
                self._stopped.wait(_ROUND_S)
            else:
                self._inspections.wait_for_any(_ROUND_S)

    def _keep_samples(self) -> None:
        with self._lock:
            samples, self._samples = self._samples, []
        self.history.add(samples)

    def _list(self) -> None:
        names, trouble = [], {}
        for catalog in self.lake.list_catalogs():
            try:
                names += self.lake.list_tables(catalog=catalog)
            except Exception as failure:
                trouble[catalog] = str(failure)
                names += [name for name in self._names if name.startswith(f"{catalog}.")]
        with self._lock:
            self._names, self._trouble = names, trouble
            for dropped in set(self._found) - set(names):
                self._found.pop(dropped)
                self._due.pop(dropped, None)

    def _due_names(self, now: float) -> list[str]:
        """The tables whose inspection is due: watched ones first, then those that have waited longest."""
        with self._lock:
            self._seen = {name: at for name, at in self._seen.items() if now - at < _SEEN_FOR_S}
            due = [name for name in self._names if self._due.get(name, 0.0) <= now]
            due.sort(key=lambda name: (name not in self._seen, self._due.get(name, 0.0)))
        return due

    def _inspect(self, name: str) -> Watched:
        began = monotonic_s()
        try:
            health = self.lake.health(name)
            sample = sample_of(health)
        except NotFound:
            raise
        except Exception as failure:  # a table with an unexpected failure is shown as broken, not omitted
            _LOG.exception("inspection of %s failed", name)
            health = unreadable_health(name, failure)
            sample = sample_of(health)
        duration_s = monotonic_s() - began
        observation = Watched(name, now_ms(), health, duration_s)
        with self._lock:
            self._found[name] = observation
            self._samples.append(sample)
            every, sharers = (_WATCHED_EVERY_S, 1) if name in self._seen else (_EVERY_S, len(self._names))
            self._due[name] = monotonic_s() + max(every, duration_s * sharers / _SHARE)
        return observation


def _late(name: str, age_s: float) -> Watched:
    why = Unavailable(f"its check has been running for {age_s:.0f} s: its storage or log does not respond")
    return Watched(name, now_ms(), unreadable_health(name, why), age_s)


def sample_of(health: TableHealth) -> Sample:
    """The sample of an inspection for the plots; unknown values are gaps."""
    name, stats = health.table, health.figures
    if stats is None:
        return Sample(name, now_ms(), score=health.score)
    log, snapshots = stats.log, stats.snapshots
    now = stats.looked_ms

    def age(time_ms: int | None) -> float | None:
        return None if time_ms is None else float(max(0, now - time_ms))

    return Sample(
        name,
        now,
        rows=stats.rows,
        bytes=stats.bytes,
        files=stats.files,
        sorted_runs=stats.sorted_runs,
        level0_files=stats.level0_files,
        snapshots=snapshots.kept,
        score=health.score,
        log_end=None if log is None or log.trouble else sum(bucket.end for bucket in log.buckets),
        lag=health.lag,
        open_epochs=None if log is None else log.open_epochs,
        log_age_ms=None if log is None else age(log.newest_ms),
        files_age_ms=age(snapshots.last_write_ms if log is None else log.files_ms),
        waiting_ms=None if log is None or log.trouble else age(log.waiting_ms) or 0.0,
    )


def total_of(healths: Sequence[TableHealth]) -> Total:
    """The sample of all tables for the overview's plots; sums leave out unknown values."""
    known = [stats for health in healths if (stats := health.figures) is not None]
    waiting = [stats.looked_ms - stats.log.waiting_ms for stats in known if stats.log and stats.log.waiting_ms]
    scores = [health.score for health in healths]
    return Total(
        now_ms(),
        bytes=sum(stats.bytes for stats in known),
        rows=sum(stats.rows for stats in known),
        lag=sum(health.lag or 0 for health in healths),
        waiting_ms=max(0, *waiting, 0),
        good=sum(score >= GOOD for score in scores),
        fair=sum(FAIR <= score < GOOD for score in scores),
        bad=sum(score < FAIR for score in scores),
    )
