"""Merges sorted runs of any length in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.merge.base import SEQUENCE_COLUMN, Indices, KeepAll, Mask, MergeEngine, Piece, one_array
from lakelog.merge.keys import Key, Part, concat_parts, key_at, key_parts, key_starts, rows_up_to, sort_rows
from lakelog.merge.numbers import order_numbers
from lakelog.merge.output import Output

_ALL: Final = Output()


def merge_runs(
    runs: Sequence[Iterable[pa.RecordBatch]], keys: Sequence[str], engine: MergeEngine, output: Output = _ALL
) -> Iterator[pa.RecordBatch]:
    """Merges sorted runs and yields at most one row per key, in key order, with the columns of ``output``.

    Called for batch reads and compactions. Each run yields batches of one schema (with the key columns ``keys``,
    ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``), sorted by the key columns, strings by their UTF-8 bytes. The newest row
    of a key has the largest ``sequence.field`` (see ``MergeEngine``), then the largest sequence number. Among equal
    ones, and in runs without ``_SEQUENCE_NUMBER``, the later run in ``runs`` counts as newer.

    The runs are cut after the smallest last key of the buffered batches. The rows up to the cut are merged, and the run
    that ended there fetches its next batch. So at most two batches of each run are buffered, more only if one key fills
    whole batches. Raises InvalidSchema for NULL keys.
    """
    cursors = [_Cursor(iter(run), keys) for run in runs]
    live = [c for c in cursors if c.fill()]
    while live:
        cut = min(c.last for c in live)
        for cursor in live:
            cursor.complete(cut)
        taken = [chunks for c in live if (chunks := list(c.take(cut)))]
        piece = _make_piece([chunk for chunks in taken for chunk in chunks], engine, is_sorted=len(taken) == 1)
        yield from output.of(piece, engine).to_batches()
        live = [c for c in live if c.fill()]


def fold_rows(rows: pa.Table, keys: Sequence[str], engine: MergeEngine) -> pa.Table:
    """Sorts rows by key, then age, and folds them to one row per key.

    Called for a memtable's flush and for rows that are not yet in files. Among rows of one key with equal sequence
    numbers, later ones count as newer.
    """
    chunks = [_Chunk(b, key_parts(b, keys), 0, b.num_rows) for b in rows.to_batches() if b.num_rows]
    if not chunks:
        return rows
    return engine.fold(_make_piece(chunks, engine, is_sorted=False))


def sort_run(rows: pa.Table, keys: Sequence[str], engine: MergeEngine) -> pa.Table:
    """Sorts rows to a run of ``merge_runs``; folds them already if the engine may fold the result again.

    Called for a spilled part of a memtable.
    """
    return fold_rows(rows, keys, engine if engine.folds_again else KeepAll(engine.schema))


@dataclass
class _Chunk:
    """Rows ``[start, stop)`` of a batch, with its key columns in comparable form."""

    batch: pa.RecordBatch
    parts: list[Part]
    start: int
    stop: int

    def key(self, row: int) -> Key:
        return key_at(self.parts, row)

    def until(self, stop: int) -> _Chunk:
        return _Chunk(self.batch, self.parts, self.start, stop)


def _make_piece(chunks: Sequence[_Chunk], engine: MergeEngine, is_sorted: bool) -> Piece:
    """Combines chunks, sorted by key and age; ``is_sorted`` means that they are consecutive in one run."""
    rows = pa.Table.from_batches([c.batch.slice(c.start, c.stop - c.start) for c in chunks])
    columns = zip(*[[part[c.start : c.stop] for part in c.parts] for c in chunks], strict=True)
    parts = [concat_parts(column) for column in columns]
    order = None if is_sorted else sort_rows(parts)
    new = key_starts(parts, order)
    if not new.all():
        if SEQUENCE_COLUMN in rows.column_names:
            order = _by_age(rows, order, new)
        if engine.sequence_fields:
            order = _by_sequence_fields(rows, order, new, engine)
    return Piece(rows, order, np.flatnonzero(new))


def _by_age(rows: pa.Table, order: Indices | None, new: Mask) -> Indices | None:
    """The order with the rows of each key from the smallest to the largest sequence number."""
    sequences = rows.column(SEQUENCE_COLUMN).to_numpy()
    if order is not None:
        sequences = sequences[order]
    if not ((sequences[1:] < sequences[:-1]) & ~new[1:]).any():
        return order
    by_age = np.lexsort((sequences, np.cumsum(new)))
    return by_age if order is None else order[by_age]


def _by_sequence_fields(rows: pa.Table, order: Indices | None, new: Mask, engine: MergeEngine) -> Indices | None:
    """The order with the rows of each key by the sequence fields; equal ones stay in order of sequence number."""
    starts = np.flatnonzero(new)
    sizes = np.diff(starts, append=len(new))
    # only keys with several rows have an order
    positions = np.flatnonzero(np.repeat(sizes > 1, sizes))
    ordered = positions if order is None else order[positions]
    columns = [one_array(rows.column(name)).take(pa.array(ordered)) for name in engine.sequence_fields]
    ages = order_numbers(columns, engine.smallest_is_newest)
    if not ((ages[1:] < ages[:-1]) & ~new[positions][1:]).any():
        return order
    sorted_order = np.arange(len(new)) if order is None else order.copy()
    sorted_order[positions] = ordered[np.lexsort((ages, np.cumsum(new)[positions]))]
    return sorted_order


class _Cursor:
    """The buffered batches of one run."""

    def __init__(self, batches: Iterator[pa.RecordBatch], keys: Sequence[str]) -> None:
        self._batches, self._keys = batches, keys
        self._chunks: list[_Chunk] = []
        self.last: Key = ()

    def fill(self) -> bool:
        """Ensures that rows are buffered; False at the end of the run."""
        return bool(self._chunks) or self._next() is not None

    def complete(self, cut: Key) -> None:
        """Fetches further batches while rows with the key of the cut may follow."""
        while self.last == cut and self._next() is not None:
            pass

    def take(self, cut: Key) -> Iterator[_Chunk]:
        """Removes and yields the rows with keys up to the cut."""
        while self._chunks:
            chunk = self._chunks[0]
            stop = rows_up_to(chunk.parts, chunk.start, chunk.stop, cut)
            if stop > chunk.start:
                yield chunk.until(stop)
            if stop < chunk.stop:
                chunk.start = stop
                return
            del self._chunks[0]

    def _next(self) -> _Chunk | None:
        for batch in self._batches:
            if batch.num_rows:
                chunk = _Chunk(batch, key_parts(batch, self._keys), 0, batch.num_rows)
                self._chunks.append(chunk)
                self.last = chunk.key(batch.num_rows - 1)
                return chunk
        return None
