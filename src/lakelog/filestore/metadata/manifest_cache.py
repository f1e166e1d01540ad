"""What this process has read of manifests, by storage and path, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from lakelog.io.storage.file_io import FileIO

CacheKey = tuple[FileIO, str]
"""(storage, path); names carry a UUID, so a path never changes its content."""


@dataclass
class ManifestCache:
    """Decoded manifests and manifest lists; those not used for longest go first. For any number of threads.

    Shared by all tables of a process, so that each handle of a table profits from what others have read.
    """

    limit: int
    size: int = 0
    _held: OrderedDict[CacheKey, tuple[Any, int]] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, key: CacheKey) -> Any | None:
        """What was put under a key; None when it was not, or is gone."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def takes(self, nbytes: int) -> bool:
        """Whether a value of this size is kept: one that would push out half of the others is not."""
        return nbytes <= self.limit // 2

    def put(self, key: CacheKey, value: Any, nbytes: int) -> None:
        """Keeps a value of about ``nbytes``."""
        with self._lock:
            if key in self._held or not self.takes(nbytes):
                return
            self._held[key] = (value, nbytes)
            self.size += nbytes
            while self.size > self.limit:
                self.size -= self._held.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forgets all, as a new process would."""
        with self._lock:
            self._held.clear()
            self.size = 0


MANIFEST_CACHE: Final = ManifestCache(limit=64 << 20)
