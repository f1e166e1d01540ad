"""The memory of a process and of all that it has started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

import psutil

_WAIT_S: Final = 10.0


class ProcessTree:
    """A process with its children, theirs, and so on, as they are when they are asked for."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def memory_bytes(self, more_than: int = 0) -> int:
        """Resident memory of all of them; 0 when they are gone.

        What processes share counts in each, which is quick to ask for; a sum of ``more_than`` is looked at again, and
        then everybody has his part of what is shared, where the system tells.
        """
        found = self._all()
        taken = _sum(found, lambda one: int(one.memory_info().rss))
        return taken if taken <= more_than else _sum(found, _own_part)

    def kill(self) -> None:
        """kill -9 of all of them, and waits until they are gone: also those that left the group of the first."""
        found = self._all()
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, _WAIT_S)

    def _all(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []


def _own_part(process: psutil.Process) -> int:
    told = process.memory_full_info()
    return int(getattr(told, "pss", told.rss))


def _sum(processes: list[psutil.Process], ask: Callable[[psutil.Process], int]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += ask(process)
    return total
