"""Scratch directories of one process; a later process removes those of a killed process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator

from lakelog.errors import Unavailable
from lakelog.io.names import new_attempt


def new_scratch(prefix: str) -> str:
    """A new directory ``<prefix>…`` for temporary files, which the caller removes. Raises Unavailable."""
    with _scratch_errors(tempfile.gettempdir()):
        return tempfile.mkdtemp(prefix=prefix)


class ScratchDirectory:
    """A new directory ``<root>/<prefix>…`` of this process; also removes those of dead processes.

    A lock that the system releases with the process marks a directory as used. The directory is deleted with this
    object, too. Raises Unavailable.
    """

    def __init__(self, root: str, prefix: str) -> None:
        name = f"{prefix}{os.getpid()}-{new_attempt()}"
        self.path = os.path.join(root, name)
        hidden = os.path.join(root, f".{name}")
        with _scratch_errors(root):
            os.makedirs(root, exist_ok=True)
            os.mkdir(hidden)
            # locked before it gets its name, so that no process takes it for an abandoned one
            lock = os.open(_lock_of(hidden), os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(hidden, self.path)
        self.close = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        _sweep(root, prefix, name)


@contextlib.contextmanager
def _scratch_errors(root: str) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        raise Unavailable(
            f"cannot create temporary files in '{root}': {why.strerror}. Free disk space, or name another directory "
            "in the environment variable TMPDIR"
        ) from why


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked process
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _sweep(root: str, prefix: str, own: str) -> None:
    with os.scandir(root) as entries:
        others = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.name != own]
    for path in others:
        with contextlib.suppress(OSError):  # locked by its process, or already deleted
            lock = os.open(_lock_of(path), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _lock_of(path: str) -> str:
    return os.path.join(path, "lock")
