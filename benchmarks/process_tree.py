"""CPU seconds and memory of a process with all its children, from ``/proc``; every Python runs it, without packages."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def tree_of(pid: int) -> list[int]:
    """The process and all below it that run now."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return found


def end_tree(pid: int) -> None:
    """Ends a process and all below it at once."""
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)


def cpu_seconds(pid: int) -> float:
    """User and system time of a tree, with children that have ended and were waited for."""
    ticks = 0
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def own_times(pid: int) -> dict[tuple[int, int], tuple[float, float]]:
    """Of each process of a tree, by its id and the tick it began: CPU seconds of its own, and resident MiB."""
    found = {}
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            values = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            found[one, int(values[19])] = (sum(map(int, values[11:13])) / _TICKS, int(values[21]) * _PAGE_MB)
    return found


def rss_mb(pid: int) -> float:
    """Resident memory of a tree, MiB; pages that processes share count once for each of them."""
    return sum(mb for _, mb in own_times(pid).values())


def pss_mb(pid: int) -> float:
    """Resident memory of a tree, MiB; pages that processes share count once."""
    total = 0
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


@dataclass
class MemorySampler:
    """Looks at a tree's memory from another process until it is stopped: resident every 50 ms, shared pages counted
    once every second.
    """

    pid: int
    samples: list[tuple[float, float]] = field(default_factory=list)
    shared_once: list[tuple[float, float]] = field(default_factory=list)
    cpu: list[tuple[float, float]] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def peak_mb(self, begin: float = 0.0, end: float = float("inf")) -> float:
        """The largest resident sample between two readings of the monotonic clock, 0 without one."""
        return round(max((mb for at, mb in self.samples if begin <= at <= end), default=0.0), 1)

    def cpu_between(self, begin: float, end: float) -> float:
        """CPU seconds between two readings of the monotonic clock, to about 0.1 s.

        Unlike ``cpu_seconds`` it keeps the time of processes that ended and that nobody waited for.
        """
        before = max((seconds for at, seconds in self.cpu if at <= begin), default=0.0)
        return max((seconds for at, seconds in self.cpu if at <= end), default=0.0) - before

    def peak_shared_once_mb(self) -> float:
        """The largest sample that counts shared pages once."""
        return round(max((mb for _, mb in self.shared_once), default=0.0), 1)

    def _run(self) -> None:
        turn = 0
        seen: dict[tuple[int, int], float] = {}
        while not self._stopped.wait(0.05):
            now, times = time.monotonic(), own_times(self.pid)
            seen.update({process: seconds for process, (seconds, _) in times.items()})
            self.samples.append((now, sum(mb for _, mb in times.values())))
            self.cpu.append((now, sum(seen.values())))
            turn += 1
            if turn % 20 == 0:
                self.shared_once.append((time.monotonic(), pss_mb(self.pid)))
