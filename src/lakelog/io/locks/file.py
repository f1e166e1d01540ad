"""A lock by local files, for writers on one machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from lakelog.errors import Unavailable
from lakelog.io.clock import monotonic_s, pause
from lakelog.io.storage.delegating import WAIT_S, CreateLock, slot_of


@dataclass(frozen=True)
class FileLock(CreateLock):
    """``flock`` on files of a local directory; the system releases it if the holder dies."""

    is_local: ClassVar[bool] = True

    directory: str

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[None]:
        lock_file = os.path.join(self.directory, f"lakelog-{slot_of(path)}.lock")
        try:
            os.makedirs(self.directory, exist_ok=True)
            handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as why:
            raise Unavailable(f"the lock '{lock_file}' cannot be opened: {why.strerror}; check owner and mode") from why
        try:
            _take(handle, lock_file)
            yield
        finally:
            os.close(handle)


def _take(handle: int, lock_file: str) -> None:
    end = monotonic_s() + WAIT_S
    for number in count():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic_s() > end:
                raise Unavailable(
                    f"other processes held the lock '{lock_file}' for {WAIT_S:.0f} s: try again"
                ) from None
        pause(number, first_s=0.0005, longest_s=0.02)
