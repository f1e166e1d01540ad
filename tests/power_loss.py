"""A local disk that loses power: what was not synchronised since is lost, in any subset.

A name is durable once its directory was synchronised after the name appeared, the bytes of a file once the file was. So
after a power loss a new name may be there or not, a removed one may be back, and a file that was not synchronised may
be empty. SQLite synchronises its own files; they are left as they are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from faults import Died

_CALLS = ("fsync", "link", "replace", "unlink")
_OF_SQLITE = ("-wal", "-shm", ".db", ".sqlite")


@dataclass
class Disk:
    """The files below a directory, and which of them would survive; call ``dies_at`` (from 1 on) finds no power."""

    root: Path
    dies_at: int = 0
    calls: int = 0
    names: dict[str, int] = field(default_factory=dict)
    """Path → inode, of all durable names."""
    data: dict[int, bytes] = field(default_factory=dict)
    """Inode → durable bytes."""

    def __post_init__(self) -> None:
        for file in self._files():
            self.names[str(file)] = file.stat().st_ino
            self.data[file.stat().st_ino] = file.read_bytes()

    @contextlib.contextmanager
    def powered(self) -> Iterator[None]:
        """Context in which the calls of this process are counted, until the power is lost."""
        with contextlib.ExitStack() as patches:
            for name in _CALLS:
                patches.enter_context(patch.object(os, name, self._counted(name, getattr(os, name))))
            with contextlib.suppress(Died):
                yield

    def lose(self, dice: Random) -> None:
        """Keeps the durable files, and a random subset of the others."""
        for path in sorted({*self.names, *map(str, self._files())}):
            inode = os.stat(path).st_ino if os.path.exists(path) else None
            durable = self.names.get(path)
            after = inode if inode == durable or dice.random() < 0.5 else durable
            if after is None:
                Path(path).unlink(missing_ok=True)
            elif after == inode and (after in self.data or dice.random() < 0.5):
                continue
            else:
                Path(path).unlink(missing_ok=True)  # another name of the same file keeps its bytes
                Path(path).write_bytes(self.data.get(after, b""))

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and not path.name.endswith(_OF_SQLITE)]

    def _counted(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if 0 < self.dies_at <= self.calls:
                # the thread that renews leases ends in silence, as the process did
                raise Died(name) if threading.current_thread() is threading.main_thread() else OSError(errno.EIO, name)
            result = work(*given, **named)
            if name == "fsync":
                self._keep(given[0])
            return result

        return call

    def _keep(self, handle: int) -> None:
        path, inode = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle).st_ino
        if not os.path.isdir(path):
            self.data[inode] = Path(path).read_bytes()
            return
        self.names = {name: at for name, at in self.names.items() if os.path.dirname(name) != path}
        with os.scandir(path) as entries:
            self.names |= {entry.path: entry.inode() for entry in entries if entry.is_file()}
