"""A directory for files of one process that nobody needs after it; what a process left that was killed goes later."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import weakref

from lakelog.io.names import new_attempt


class ScratchDirectory:
    """A new directory ``<root>/<prefix>…`` of this process, and the end of those whose processes are no more.

    A lock that the system frees with the process says who is there. It goes with this object, too.
    """

    def __init__(self, root: str, prefix: str) -> None:
        os.makedirs(root, exist_ok=True)
        name = f"{prefix}{os.getpid()}-{new_attempt()}"
        self.path = os.path.join(root, name)
        made = os.path.join(root, f".{name}")
        os.mkdir(made)
        # locked before it gets its name: nobody takes it for one that was left
        lock = os.open(_lock_of(made), os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.rename(made, self.path)
        self.close = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        _sweep(root, prefix, name)


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a process that was forked off
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _sweep(root: str, prefix: str, own: str) -> None:
    with os.scandir(root) as entries:
        others = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.name != own]
    for path in others:
        with contextlib.suppress(OSError):  # held by its process, or gone
            lock = os.open(_lock_of(path), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _lock_of(path: str) -> str:
    return os.path.join(path, "lock")
