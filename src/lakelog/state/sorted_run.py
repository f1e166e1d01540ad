"""A sorted run of keyed state: rows by key, each key once, in blocks; a lookup reads only the blocks that it needs.

Layout of a file: an Arrow IPC file whose batches are the blocks, compressed with LZ4. ``keyed_state`` keeps
the first key of each block with the file's name, so that opening a file reads nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np
import pyarrow as pa
from cachetools import LRUCache

from lakelog.io.arrow_messages import UnpackLimit
from lakelog.io.storage.file_io import FileIO
from lakelog.merge.base import Indices
from lakelog.merge.keys import Part, concat_parts, find_keys, key_parts, sort_rows

BLOCK_ROWS: Final = 8192
BLOCKS: Final = UnpackLimit(rows=BLOCK_ROWS, size=1 << 40, ratio=1 << 8)
"""What a block unpacks to: LZ4 never packs better."""


@dataclass(frozen=True)
class KeyedRun:
    """Rows sorted by key in blocks; ``load`` gets one by its number, ``bounds`` are the first keys of all."""

    keys: tuple[str, ...]
    bounds: pa.RecordBatch
    rows: int
    load: Callable[[int], pa.RecordBatch]
    name: str = ""

    def find(self, wanted: Sequence[Part]) -> tuple[Indices, list[pa.RecordBatch]]:
        """The positions of the keys that the run has, and their rows; ``wanted`` are sorted, each key once."""
        block_of = _blocks_of(wanted, key_parts(self.bounds, self.keys))
        positions, rows = [], []
        for block in np.unique(block_of[block_of >= 0]).tolist():
            first, end = np.searchsorted(block_of, [block, block + 1])
            batch = self.load(block)
            at = find_keys([part[first:end] for part in wanted], key_parts(batch, self.keys))
            hits = np.flatnonzero(at >= 0)
            if len(hits):
                positions.append(first + hits)
                rows.append(batch.take(pa.array(at[hits])))
        return (np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)), rows

    def find_all(self, wanted: Sequence[Part]) -> tuple[Indices, list[pa.RecordBatch]]:
        """The rows whose first key columns are one of ``wanted`` (sorted, each once), and the position of each."""
        bounds = key_parts(self.bounds, self.keys[: len(wanted)])
        firsts = np.maximum(ranks(wanted, bounds, before=True) - 1, 0)
        lasts = ranks(wanted, bounds, before=False) - 1
        positions, rows = [], []
        for block in range(self.bounds.num_rows):
            low, high = np.searchsorted(lasts, block, "left"), np.searchsorted(firsts, block, "right")
            if low >= high:
                continue
            batch = self.load(block)
            own, among = [part[low:high] for part in wanted], key_parts(batch, self.keys[: len(wanted)])
            starts, ends = ranks(own, among, before=True), ranks(own, among, before=False)
            if (ends > starts).any():
                positions.append(np.repeat(np.arange(low, high), ends - starts))
                rows.append(batch.take(pa.array(spread(starts, ends))))
        return (np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)), rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        return (self.load(block) for block in range(self.bounds.num_rows))


def _blocks_of(wanted: Sequence[Part], bounds: Sequence[Part]) -> Indices:
    """For each key the only block that may contain it: the last one whose first key is not larger; -1 if none."""
    count = len(bounds[0])
    order = sort_rows([concat_parts([b, w]) for b, w in zip(bounds, wanted, strict=True)])
    is_wanted = order >= count
    out = np.empty(len(wanted[0]), dtype=np.int64)
    out[order[is_wanted] - count] = np.cumsum(~is_wanted)[is_wanted] - 1
    return out


def ranks(wanted: Sequence[Part], among: Sequence[Part], before: bool) -> Indices:
    """The number of keys of ``among`` below each key of ``wanted``; without ``before`` also equal ones.

    Both are sorted.
    """
    first, other = wanted[0], among[0]
    if len(wanted) == 1 and isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        return np.searchsorted(other, first, "left" if before else "right").astype(np.int64, copy=False)
    sides = (wanted, among) if before else (among, wanted)
    order = sort_rows([concat_parts(pair) for pair in zip(*sides, strict=True)])
    rows, shift = len(first), 0 if before else len(other)
    is_wanted = (order >= shift) & (order < shift + rows)
    out = np.empty(rows, dtype=np.int64)
    out[order[is_wanted] - shift] = np.cumsum(~is_wanted)[is_wanted]
    return out


def spread(starts: Indices, ends: Indices) -> Indices:
    """The numbers of all ranges ``[start, end)``, one range after the other."""
    sizes = ends - starts
    before = np.cumsum(sizes) - sizes
    out: Indices = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
    return out


def run_in_memory(keys: tuple[str, ...], batches: Iterable[pa.RecordBatch]) -> KeyedRun:
    """A run of rows at hand, which are sorted by key."""
    blocks = list(blocks_of(batches))
    firsts = pa.Table.from_batches([block.slice(0, 1).select(list(keys)) for block in blocks]).combine_chunks()
    return KeyedRun(keys, firsts.to_batches()[0], sum(b.num_rows for b in blocks), blocks.__getitem__)


def write_run(
    io: FileIO, path: str, keys: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> tuple[pa.RecordBatch, int] | None:
    """Writes sorted rows as a new file; returns the first key of each block and the rows; None when there are none."""
    firsts: list[pa.RecordBatch] = []
    rows, writer = 0, None
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    sink = None
    try:
        for block in blocks_of(batches):
            if writer is None:
                sink = io.open_output(path)
                writer = pa.ipc.new_file(sink, block.schema, options=options)
            writer.write_batch(block)
            firsts.append(block.slice(0, 1).select(list(keys)))
            rows += block.num_rows
    finally:
        if writer is not None and sink is not None:
            writer.close()
            sink.close()
    if not firsts:
        return None
    return pa.Table.from_batches(firsts).combine_chunks().to_batches()[0], rows


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of ``BLOCK_ROWS``, the last one smaller."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        count += batch.num_rows
        if count >= BLOCK_ROWS:
            whole = pa.concat_batches(held)
            cut = count - count % BLOCK_ROWS
            yield from (whole.slice(first, BLOCK_ROWS) for first in range(0, cut, BLOCK_ROWS))
            held, count = ([whole.slice(cut)] if cut < count else []), count - cut
    if held:
        yield pa.concat_batches(held)


BlockKey = tuple[str, str, int]
"""Directory, file and number of a block."""


class BlockCache:
    """Cache of decoded blocks by key, at most ``limit`` bytes. Thread-safe.

    ``hits`` and ``loads`` count the blocks that were there, and those that had to be read.
    """

    def __init__(self, limit: int) -> None:
        self.hits, self.loads = 0, 0
        self._lock = threading.Lock()
        self._blocks: LRUCache[BlockKey, pa.RecordBatch] = LRUCache(limit, getsizeof=attrgetter("nbytes"))

    @property
    def bytes(self) -> int:
        return int(self._blocks.currsize)

    def get(self, block_key: BlockKey, load: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """The block of a key; ``load`` reads it if it is not cached."""
        with self._lock:
            found = self._blocks.get(block_key)
            if found is not None:
                self.hits += 1
                return found
        block = load()
        with self._lock:
            self.loads += 1
            if block.nbytes <= self._blocks.maxsize:
                self._blocks[block_key] = block
        return block

    def forget(self, directory: str, name: str | None = None) -> None:
        """Drops the blocks of a file, or of all files of a directory."""
        with self._lock:
            for block_key in [p for p in self._blocks if p[0] == directory and name in (None, p[1])]:
                del self._blocks[block_key]
