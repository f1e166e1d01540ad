"""Local copies of data files with repeated key lookups, uncompressed and memory-mapped (sheet 7).

Without copies, a compaction of a few new rows would read and decompress files as large as the table. Data files never
change, so copies stay valid. All compactions of a process share one cache, which is deleted with the process.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from cachetools import LRUCache

from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.options.option import Options
from lakelog.options.picking import LOOKUP_CACHE_RETENTION, LOOKUP_CACHE_SIZE

_LOG = logging.getLogger("lakelog.compact")
_REMEMBERED: Final = 10_000
"""Files whose first lookup is remembered."""


@dataclass
class _Copy:
    path: Path
    size: int
    used_s: float


class LookupCache:
    """Copies of files by name, least recently used first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: No cache of cachetools: size and age are limited by the table of each call, and a copy is a file to delete.
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._looked_up: LRUCache[str, None] = LRUCache(_REMEMBERED)
        self._directory: Path | None = None

    def batches(
        self, name: str, read: Callable[[], Iterable[pa.RecordBatch]], options: Options
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a file, from its copy; ``read`` reads the file itself.

        ``name`` identifies the file and its columns. The first lookup of a file makes no copy, because a single
        compaction needs none. ``options`` are the table's, with the size and the age of the cache.
        """
        limit = options.get_typed(LOOKUP_CACHE_SIZE)
        with self._lock:
            self._forget_old(options.need(LOOKUP_CACHE_RETENTION).total_seconds())
            copy = self._copies.get(name)
            if copy is not None:
                copy.used_s = clock.monotonic_s()
                self._copies.move_to_end(name)
            is_again = name in self._looked_up
            self._looked_up[name] = None
        if copy is None and is_again and limit != 0:
            copy = self._copied(name, read, limit)
        batches = None if copy is None else _mapped(copy.path)
        yield from read() if batches is None else batches

    @property
    def size(self) -> int:
        with self._lock:
            return sum(copy.size for copy in self._copies.values())

    def _copied(self, name: str, read: Callable[[], Iterable[pa.RecordBatch]], limit: int | None) -> _Copy | None:
        path = self._new_path()
        try:
            _write(path, read())
            copy = _Copy(path, path.stat().st_size, clock.monotonic_s())
        except OSError as failure:
            # a full disk must not stop a compaction
            _LOG.warning("no local copy of %s for lookups: %s", name, failure)
            path.unlink(missing_ok=True)
            return None
        with self._lock:
            if limit is not None and copy.size > limit:
                path.unlink()
                return None
            other = self._copies.pop(name, None)
            if other is not None:
                other.path.unlink(missing_ok=True)
            self._copies[name] = copy
            while limit is not None and sum(c.size for c in self._copies.values()) > limit:
                self._drop(next(iter(self._copies)))
        return copy

    def _new_path(self) -> Path:
        with self._lock:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="lakelog-lookup-"))
                weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
            return self._directory / f"{new_uuid()}.arrow"

    def _forget_old(self, retention_s: float) -> None:
        now = clock.monotonic_s()
        for name in [n for n, copy in self._copies.items() if now - copy.used_s > retention_s]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        # readers keep their mapping
        self._copies.pop(name).path.unlink(missing_ok=True)


@functools.cache
def process_cache() -> LookupCache:
    """The cache of this process."""
    return LookupCache()


def _write(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    writer = None
    with pa.OSFile(str(path), "wb") as sink:
        for batch in batches:
            writer = writer or pa.ipc.new_file(sink, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()


def _mapped(path: Path) -> Iterator[pa.RecordBatch] | None:
    """The batches of a copy; None if another thread has dropped it."""
    try:
        if not path.stat().st_size:
            return iter(())
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
    except FileNotFoundError:
        return None
    return (reader.get_batch(at) for at in range(reader.num_record_batches))
