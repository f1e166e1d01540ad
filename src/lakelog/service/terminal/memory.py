"""The memory of a process and its descendants."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import psutil

_WAIT_S: Final = 10.0


class ProcessTree:
    """A process and its current descendants."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def memory_bytes(self, more_than: int = 0) -> int:
        """Resident memory of all of them; 0 if they have ended.

        Shared memory counts in each process, which is fast to read. A sum above ``more_than`` is computed again with
        the proportional share of each process, if the system reports it.
        """
        processes = self._all()
        taken = _sum(processes, lambda one: int(one.memory_info().rss))
        return taken if taken <= more_than else _sum(processes, _own_part)

    def kill(self) -> None:
        """Kills all of them (SIGKILL) and waits for their end, including those that have left the process group."""
        processes = self._all()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, _WAIT_S)

    def _all(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []


def _own_part(process: psutil.Process) -> int:
    usage = process.memory_full_info()
    return int(getattr(usage, "pss", usage.rss))


def _sum(processes: list[psutil.Process], ask: Callable[[psutil.Process], int]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += ask(process)
    return total
