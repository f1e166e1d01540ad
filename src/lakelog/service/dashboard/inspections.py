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
class _Running(Generic[T]):
    result: Future[T]
    since_s: float


class Inspections(Generic[T]):
    """Runs ``inspect`` for each name in its own thread, once at a time. Thread-safe.

    Storage that never answers, such as a mount whose server is down, blocks a thread for ever. After ``late_s`` seconds
    an inspection is late, and no longer counts as running. The threads end with the process.
    """

    def __init__(self, inspect: Callable[[str], T], at_once: int, late_s: float) -> None:
        self._inspect, self._at_once, self.late_s = inspect, at_once, late_s
        self._running: dict[str, _Running[T]] = {}
        self._lock = threading.Lock()

    def start(self, name: str) -> Future[T]:
        """The running inspection of a name, or a new one."""
        with self._lock:
            running = self._running.get(name)
            if running is not None:
                return running.result
            running = self._running[name] = _Running(Future[T](), monotonic_s())
        threading.Thread(target=self._run, args=(name, running.result), name="inspection", daemon=True).start()
        return running.result

    def start_some(self, names: list[str]) -> bool:
        """Starts inspections of the first of these names, up to the limit; returns True if it has started all."""
        with self._lock:
            names = [name for name in names if name not in self._running]
        now = self._count_late_and_running()
        free = min(self._at_once - now[1], _MOST - now[0] - now[1])
        for name in names[: max(0, free)]:
            self.start(name)
        return len(names) <= free

    def late(self) -> dict[str, float]:
        """Name of each late inspection → seconds since its start."""
        now = monotonic_s()
        with self._lock:
            since = {name: now - one.since_s for name, one in self._running.items()}
        return {name: age for name, age in since.items() if age >= self.late_s}

    def wait_for_any(self, timeout_s: float) -> None:
        """Waits until one of the running inspections ends, or until the timeout."""
        with self._lock:
            results = [one.result for one in self._running.values()]
        wait(results, timeout_s, FIRST_COMPLETED)

    def wait_for_all(self, timeout_s: float) -> None:
        """Waits until all running inspections have ended, or until the timeout."""
        with self._lock:
            results = [one.result for one in self._running.values()]
        wait(results, timeout_s)

    def _count_late_and_running(self) -> tuple[int, int]:
        late = len(self.late())
        with self._lock:
            return late, max(0, len(self._running) - late)

    def _run(self, name: str, result: Future[T]) -> None:
        try:
            outcome = self._inspect(name)
        except BaseException as failure:
            self._forget(name)
            result.set_exception(failure)
        else:
            self._forget(name)
            result.set_result(outcome)

    def _forget(self, name: str) -> None:
        with self._lock:
            del self._running[name]
