"""Running inspections of tables: one that hangs does not delay the others, and is reported as late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from lakelog.io.clock import monotonic_s

_MOST: Final = 64
T = TypeVar("T")


@dataclass(frozen=True)
class _UnderWay(Generic[T]):
    result: Future[T]
    since_s: float


class Looks(Generic[T]):
    """Runs ``look`` for each name in its own thread, once at a time. Thread-safe.

    Storage that never answers, such as a mount whose server is gone, blocks a thread for ever. After ``late_s`` seconds
    a look is late, and another one may run beside it. The threads end with the process.
    """

    def __init__(self, look: Callable[[str], T], at_once: int, late_s: float) -> None:
        self._look, self._at_once, self.late_s = look, at_once, late_s
        self._under_way: dict[str, _UnderWay[T]] = {}
        self._lock = threading.Lock()

    def start(self, name: str) -> Future[T]:
        """The running look at a name, or a new one."""
        with self._lock:
            found = self._under_way.get(name)
            if found is not None:
                return found.result
            made = self._under_way[name] = _UnderWay(Future[T](), monotonic_s())
        threading.Thread(target=self._run, args=(name, made.result), name="look", daemon=True).start()
        return made.result

    def start_some(self, names: list[str]) -> bool:
        """Starts looks at the first of these names, up to the limit; returns True if it has started all."""
        with self._lock:
            names = [name for name in names if name not in self._under_way]
        now = self._late_and_others()
        free = min(self._at_once - now[1], _MOST - now[0] - now[1])
        for name in names[: max(0, free)]:
            self.start(name)
        return len(names) <= free

    def late(self) -> dict[str, float]:
        """Name of each late look → seconds since its start."""
        now = monotonic_s()
        with self._lock:
            since = {name: now - one.since_s for name, one in self._under_way.items()}
        return {name: age for name, age in since.items() if age >= self.late_s}

    def wait_for_one(self, timeout_s: float) -> None:
        """Waits until one of the running looks ends, or until the timeout."""
        with self._lock:
            results = [one.result for one in self._under_way.values()]
        wait(results, timeout_s, FIRST_COMPLETED)

    def wait_for_all(self, timeout_s: float) -> None:
        """Waits until all running looks have ended, or until the timeout."""
        with self._lock:
            results = [one.result for one in self._under_way.values()]
        wait(results, timeout_s)

    def _late_and_others(self) -> tuple[int, int]:
        late = len(self.late())
        with self._lock:
            return late, max(0, len(self._under_way) - late)

    def _run(self, name: str, result: Future[T]) -> None:
        try:
            found = self._look(name)
        except BaseException as failure:
            self._forget(name)
            result.set_exception(failure)
        else:
            self._forget(name)
            result.set_result(found)

    def _forget(self, name: str) -> None:
        with self._lock:
            del self._under_way[name]
