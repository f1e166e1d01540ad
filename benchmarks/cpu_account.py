"""Where the CPU time of a benchmark goes: driver, Python workers, broker, and the threads of Spark's JVM by purpose."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from process_tree import tree_of

_TICKS = os.sysconf("SC_CLK_TCK")
_BROKERS = ("kafka.Kafka", "org.apache.pulsar")
"""Main classes of the brokers that a benchmark starts."""
_THREADS = {
    "C1 Compiler": "jvm compiler",
    "C2 Compiler": "jvm compiler",
    "GC Thread": "jvm gc",
    "G1 ": "jvm gc",
    "VM Thread": "jvm gc",
    "Executor task": "jvm tasks",
    "stdout writer": "jvm tasks",
    "Writer for": "jvm tasks",
    "stream execu": "jvm stream thread",
}
"""Beginning of a thread's name (Linux keeps 15 characters) → part of the account. The rest is ``jvm other``."""
_NAMED = frozenset(_THREADS.values())
_LOOK_S = 0.5


class CpuAccount:
    """CPU seconds by part of a process and all below it; keeps those of processes and threads that have ended.

    Parts: ``driver`` (the process itself), ``python workers``, ``broker``, and those of the JVM. A context that looks
    twice a second, so the last half second of a process may be missing.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[tuple[str, str, str], float] = {}
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CpuAccount:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def take(self) -> dict[str, float]:
        """Seconds so far, by part."""
        with self._lock:
            for one in tree_of(self._pid):
                with contextlib.suppress(OSError):
                    self._look(one)
            out: Counter[str] = Counter()
            for (_, _, part), seconds in self._seen.items():
                out[part] += seconds
        return {part: max(0.0, seconds) for part, seconds in out.items()}

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.take()

    def _look(self, pid: int) -> None:
        process = Path(f"/proc/{pid}")
        command = (process / "cmdline").read_text()
        seconds, began = _times(process / "stat")
        if any(name in command for name in _BROKERS):
            part = "broker"
        elif command.split("\0")[0].endswith("java"):
            part = "jvm other"
            for task in (process / "task").iterdir():
                with contextlib.suppress(OSError):
                    named = part_of((task / "comm").read_text().strip())
                    if named is not None:
                        own, thread_began = _times(task / "stat")
                        self._seen[task.name, thread_began, named] = own
            # the process has the time of all its threads, also of those that have ended
            seconds -= sum(s for (_, _, p), s in self._seen.items() if p in _NAMED)
        else:
            part = "driver" if pid == self._pid else "python workers"
        self._seen[str(pid), began, part] = seconds


def per_row(before: Mapping[str, float], after: Mapping[str, float], rows: int) -> dict[str, float]:
    """µs of CPU a row between two accounts, by part and in ``all``."""
    parts = {name: max(0.0, after[name] - before.get(name, 0.0)) / rows * 1e6 for name in sorted(after)}
    return {name: round(value, 2) for name, value in (*parts.items(), ("all", sum(parts.values())))}


def part_of(thread: str) -> str | None:
    """The part of a thread of the JVM by its name; None for others."""
    return next((part for begin, part in _THREADS.items() if thread.startswith(begin)), None)


def _times(stat: Path) -> tuple[float, str]:
    """CPU seconds of a process or thread, and the tick at which it began."""
    values = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, values[11:13])) / _TICKS, values[19]
