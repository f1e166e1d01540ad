"""The memory of a process and of all that it has started."""

from __future__ import annotations

import contextlib
from typing import Final

import psutil

_WAIT_S: Final = 10.0


class ProcessTree:
    """A process with its children, theirs, and so on, as they are when they are asked for."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def memory_bytes(self) -> int:
        """Resident memory of all of them; 0 when they are gone. What processes share counts in each."""
        total = 0
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total

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
