"""Where the CPU time of a benchmark goes: driver, Python workers, broker, and the threads of Spark's JVM by purpose."""

from __future__ import annotations

import contextlib
import os
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


def cpu_account(pid: int) -> dict[str, float]:
    """CPU seconds so far, by part, of a process and all below it.

    Children that have ended count if they were waited for. Parts: ``driver`` (the process itself), ``python workers``,
    ``broker``, and those of the JVM.
    """
    seconds: Counter[str] = Counter()
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{one}/cmdline").read_text()
            own, waited = _times(Path(f"/proc/{one}/stat"))
            if any(name in command for name in _BROKERS):
                seconds["broker"] += own + waited
            elif _is_java(command):
                named = _jvm_threads(one)
                seconds.update(named)
                seconds["jvm other"] += own - sum(named.values())
            elif one == pid:
                seconds["driver"] += own
            else:
                seconds["python workers"] += own + waited
    return dict(seconds)


def per_row(before: Mapping[str, float], after: Mapping[str, float], rows: int) -> dict[str, float]:
    """µs of CPU a row between two accounts, by part and in ``all``."""
    parts = {name: max(0.0, after[name] - before.get(name, 0.0)) / rows * 1e6 for name in sorted(after)}
    return {name: round(value, 2) for name, value in (*parts.items(), ("all", sum(parts.values())))}


def part_of(thread: str) -> str | None:
    """The part of a thread of the JVM by its name; None for others."""
    return next((part for begin, part in _THREADS.items() if thread.startswith(begin)), None)


def _is_java(command: str) -> bool:
    return command.split("\0")[0].endswith("java")


def _jvm_threads(pid: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            part = part_of((task / "comm").read_text().strip())
            if part is not None:
                found[part] += _times(task / "stat")[0]
    return found


def _times(stat: Path) -> tuple[float, float]:
    """Seconds of a process or thread itself, and of its children that were waited for."""
    values = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, values[11:13])) / _TICKS, sum(map(int, values[13:15])) / _TICKS
