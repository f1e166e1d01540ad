"""Create-if-absent for a store that cannot: look and write while holding a lock."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.errors import CommitUnknown, Unavailable
from lakelog.io.storage.create_lock import CreateLock
from lakelog.io.storage.delegating import DelegatingFileIO


@dataclass(frozen=True)
class LockedFileIO(DelegatingFileIO):
    """Another storage whose ``create`` is atomic among all who use the same lock; everything else passes through."""

    lock: CreateLock

    def create(self, path: str, data: bytes) -> bool:
        """As every storage's. Raises Unavailable when the lock cannot be had, CommitUnknown when the write was lost."""
        with self.lock.held(path):
            if self.inner.exists(path):
                return False
            try:
                self.inner.write(path, data)
            except Unavailable as why:
                raise CommitUnknown(f"'{path}' may or may not have been written: {why}") from why
            return True
