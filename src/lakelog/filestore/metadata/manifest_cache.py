"""Process-wide cache of decoded manifests by storage and path, limited in bytes."""

from __future__ import annotations

import threading
from operator import itemgetter
from typing import Any, Final

from cachetools import LRUCache

from lakelog.io.storage.file_io import FileIO

CacheKey = tuple[FileIO, str]
"""(storage, path); names contain a UUID, so the content of a path never changes."""


class ManifestCache:
    """LRU cache of decoded manifests and manifest lists. Thread-safe.

    All tables of a process share it, so that each handle of a table benefits from the reads of others.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._held: LRUCache[CacheKey, tuple[Any, int]] = LRUCache(limit, getsizeof=itemgetter(1))

    @property
    def size(self) -> int:
        return int(self._held.currsize)

    def get(self, key: CacheKey) -> Any | None:
        """The cached value of a key, or None."""
        with self._lock:
            return self._held.get(key, (None, 0))[0]

    def takes(self, nbytes: int) -> bool:
        """Returns whether a value of this size is cached; larger values would evict half of the others."""
        return nbytes <= self.limit // 2

    def put(self, key: CacheKey, value: Any, nbytes: int) -> None:
        """Caches a value of about ``nbytes``."""
        with self._lock:
            if key not in self._held and self.takes(nbytes):
                self._held[key] = (value, nbytes)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


MANIFEST_CACHE: Final = ManifestCache(limit=64 << 20)
