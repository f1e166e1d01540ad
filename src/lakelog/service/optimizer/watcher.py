"""The existing tables and their current needs; after a failed inspection, a table is skipped for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidRequest, NotFound
from lakelog.io import clock
from lakelog.lake import Lake
from lakelog.options.optimizer import OPTIMIZER_ENABLED
from lakelog.table.health.actions import KINDS, Action, Blocker
from lakelog.table.health.health import table_health

_MOST_DELAY_S: Final = 3600.0


@dataclass(frozen=True)
class Observation:
    """The result of a table's inspection; ``failure`` is the reason if it failed."""

    table: str
    needs: tuple[Action, ...] = ()
    waits: tuple[Blocker, ...] = ()
    failure: str = ""


class TableWatcher:
    """Inspects the tables of all catalogs of a lake, or those that the settings name."""

    def __init__(self, lake: Lake, settings: OptimizerSettings) -> None:
        self._lake, self._settings = lake, settings
        self._lock = threading.Lock()
        self._failures: dict[str, tuple[int, float, str]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        """Catalog → its tables in the last listing."""

    @property
    def names(self) -> frozenset[str]:
        """The existing tables, by the last listing of each catalog."""
        with self._lock:
            return frozenset(name for names in self._names.values() for name in names)

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def troubles(self) -> tuple[tuple[str, str], ...]:
        """The tables and catalogs whose inspection failed, with the reasons."""
        with self._lock:
            return tuple(sorted((name, why) for name, (_, _, why) in self._failures.items()))

    def inspect_all(self, is_stopped: Callable[[], bool]) -> Iterator[Observation]:
        """Inspects all tables except recently failed ones; ends early if it is stopped."""
        yield from self._list()
        names = self.names
        for name in sorted(names):
            if is_stopped():
                return
            yield from self.inspect([name])
        with self._lock:
            self._failures = {name: count for name, count in self._failures.items() if name in {*names, *self._names}}

    def inspect(self, names: Iterable[str]) -> list[Observation]:
        """Inspects some tables; omits dropped and recently failed ones."""
        out = []
        for name in names:
            if self._is_backing_off(name):
                continue
            try:
                table = self._lake.table(name).logical
                observation = Observation(name)
                if table.options.need(OPTIMIZER_ENABLED):
                    health = table_health(table)
                    observation = Observation(name, health.needs, health.waits)
            except NotFound as dropped:
                if name in self._settings.tables or self._exists(name):
                    out.append(self._failed(name, dropped))
                continue
            except Exception as why:
                out.append(self._failed(name, why))
                continue
            with self._lock:
                self._failures.pop(name, None)
            out.append(observation)
        return out

    def _list(self) -> Iterator[Observation]:
        """Lists the tables; if a catalog does not answer, its last listing stays."""
        if self._settings.tables:
            with self._lock:
                self._names = {"": self._settings.tables}
            return
        catalogs = self._lake.list_catalogs()
        with self._lock:
            self._names = {name: names for name, names in self._names.items() if name in catalogs}
        for catalog in catalogs:
            if self._is_backing_off(catalog):
                continue
            try:
                names: Sequence[str] = self._lake.list_tables(catalog=catalog)
            except Exception as why:
                yield self._failed(catalog, why)
                continue
            with self._lock:
                self._names[catalog] = tuple(names)
                self._failures.pop(catalog, None)

    def _exists(self, name: str) -> bool:
        """Returns whether a table can be opened; then the missing object was one of its files."""
        try:
            self._lake.table(name)
        except Exception:
            return False
        return True

    def _is_backing_off(self, name: str) -> bool:
        with self._lock:
            return name in self._failures and clock.monotonic_s() < self._failures[name][1]

    def _failed(self, name: str, why: Exception) -> Observation:
        with self._lock:
            times = self._failures[name][0] + 1 if name in self._failures else 1
            delay = min(_MOST_DELAY_S, self._settings.interval_s * 2 ** min(times - 1, 20))
            text = f"{type(why).__name__}: {str(why).strip()[:2000]}"
            self._failures[name] = (times, clock.monotonic_s() + delay, text)
        return Observation(name, failure=f"{text}; next attempt in {delay:.0f} s")


@dataclass(frozen=True)
class OptimizerSettings:
    """The maintained ``tables`` (empty: all of every catalog) and ``kinds`` of maintenance, and the limits.

    The optimizer inspects the tables every ``interval_s``. At most ``parallel`` runs are active, and each ends at the
    next safe point after ``run_s``. Compactions read at most ``bytes_per_hour`` (None: no limit). The limits apply to
    each process.
    """

    tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    interval_s: float = 30.0
    parallel: int = 2
    bytes_per_hour: int | None = None
    run_s: float = 600.0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise InvalidRequest(f"unknown kind of maintenance '{unknown[0]}'; known: {', '.join(KINDS)}")
        limits = (self.interval_s, self.parallel, self.run_s, self.bytes_per_hour)
        if any(limit is not None and limit <= 0 for limit in limits):
            raise InvalidRequest("the interval, concurrent runs, time and bytes of an optimizer must be above 0")
