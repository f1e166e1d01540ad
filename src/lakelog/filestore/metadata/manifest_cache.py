"""What this process has read of manifests, by storage and path, up to a number of bytes."""

from __future__ import annotations

import threading
from operator import itemgetter
from typing import Any, Final

from cachetools import LRUCache

from lakelog.io.storage.file_io import FileIO

CacheKey = tuple[FileIO, str]
"""(storage, path); names carry a UUID, so a path never changes its content."""


class ManifestCache:
    """Decoded manifests and manifest lists; those not used for longest go first. For any number of threads.

    Shared by all tables of a process, so that each handle of a table profits from what others have read.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._held: LRUCache[CacheKey, tuple[Any, int]] = LRUCache(limit, getsizeof=itemgetter(1))

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return int(self._held.currsize)

    def get(self, key: CacheKey) -> Any | None:
        """What was put under a key; None when it was not, or is gone."""
        with self._lock:
            return self._held.get(key, (None, 0))[0]

    def takes(self, nbytes: int) -> bool:
        """Whether a value of this size is kept: one that would push out half of the others is not."""
        return nbytes <= self.limit // 2

    def put(self, key: CacheKey, value: Any, nbytes: int) -> None:
        """Keeps a value of about ``nbytes``."""
        with self._lock:
            if key not in self._held and self.takes(nbytes):
                self._held[key] = (value, nbytes)

    def clear(self) -> None:
        """Forgets all, as a new process would."""
        with self._lock:
            self._held.clear()


MANIFEST_CACHE: Final = ManifestCache(limit=64 << 20)
