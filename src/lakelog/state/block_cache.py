"""Blocks of sorted runs that were read, the longest unused go first when they take more than they may."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import pyarrow as pa

BlockKey = tuple[str, str, int]
"""Directory, file and number of a block."""


class BlockCache:
    """Decoded blocks by their place, at most ``limit`` bytes of them. Thread-safe.

    ``hits`` and ``loads`` count the blocks that were there, and those that had to be read.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.hits, self.loads, self.bytes = limit, 0, 0, 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[BlockKey, pa.RecordBatch] = OrderedDict()

    def get(self, place: BlockKey, load: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """The block at a place, read by ``load`` unless it is held."""
        with self._lock:
            found = self._blocks.get(place)
            if found is not None:
                self._blocks.move_to_end(place)
                self.hits += 1
                return found
        block = load()
        with self._lock:
            self.loads += 1
            if place not in self._blocks and block.nbytes <= self.limit:
                self._blocks[place] = block
                self.bytes += block.nbytes
            while self.bytes > self.limit:
                self.bytes -= self._blocks.popitem(last=False)[1].nbytes
        return block

    def forget(self, directory: str, name: str | None = None) -> None:
        """Drops the blocks of a file, or of all files of a directory."""
        with self._lock:
            for place in [p for p in self._blocks if p[0] == directory and name in (None, p[1])]:
                self.bytes -= self._blocks.pop(place).nbytes
