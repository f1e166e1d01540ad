"""The merge of a compaction that looks up what it replaces in the levels above its output (format sheet 7, 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.filestore.upper_levels import Hits, UpperLevels
from lakelog.merge.base import SEQUENCE_COLUMN, Indices, MergeEngine, Piece, one_array
from lakelog.merge.keys import key_parts
from lakelog.merge.lowest_level import LEVEL_COLUMN, LowestLevel, counting_rows, with_level
from lakelog.merge.matching import find_keys
from lakelog.merge.numbers import order_numbers


class LookupMerge(MergeEngine):
    """Folds as ``LowestLevel``, with the old rows of keys that come with rows of level 0 alone, from the upper levels.

    ``on_hits`` is told of each row that was found. ``takes_rows`` says whether the finder gives whole rows, which then
    take part in the merge.
    """

    def __init__(
        self, inner: MergeEngine, upper: UpperLevels, takes_rows: bool, on_hits: Callable[[Hits], None] | None
    ) -> None:
        super().__init__(inner.schema)
        self._lowest = LowestLevel(inner)
        self._keys = inner.schema.trimmed_primary_keys
        self._upper, self._takes_rows, self._on_hits = upper, takes_rows, on_hits

    def fold(self, piece: Piece) -> pa.Table:
        return self._lowest.fold(self.completed(piece))

    def completed(self, piece: Piece) -> Piece:
        """The piece with the rows that were found; its keys are folded even if they have one row."""
        levels = piece.numbers(LEVEL_COLUMN)
        asked = np.flatnonzero(np.maximum.reduceat(levels, piece.starts) == 0)
        folded = replace(piece, folds_alone=np.ones(len(piece.starts), dtype=np.bool_))
        if not len(asked):
            return folded
        found = []
        for hits in self._upper.find(_keys_of(piece.rows_at(piece.starts[asked]), self._keys)):
            if self._on_hits is not None:
                self._on_hits(hits)
            found.append(hits)
        return with_rows(folded, [(asked[h.keys], h) for h in found], self) if found and self._takes_rows else folded


class FirstRowLookup(MergeEngine):
    """Merge engine ``first-row``: a key that an upper level has keeps the row that is there."""

    def __init__(self, inner: MergeEngine, upper: UpperLevels) -> None:
        super().__init__(inner.schema)
        self._inner, self._upper = inner, upper
        self._keys = inner.schema.trimmed_primary_keys

    def fold(self, piece: Piece) -> pa.Table:
        is_new = np.maximum.reduceat(piece.numbers(LEVEL_COLUMN), piece.starts) == 0
        rows = self._inner.fold(replace(piece, rows=piece.rows.drop_columns([LEVEL_COLUMN])))
        asked = np.flatnonzero(is_new)
        if not len(asked):
            return rows
        wanted = _keys_of(piece.rows_at(piece.starts[asked]), self._keys)
        known = [asked[h.keys] for h in self._upper.find(wanted)]
        if not known:
            return rows
        gone = np.zeros(len(piece.starts), dtype=np.bool_)
        gone[np.concatenate(known)] = True
        return rows.filter(pa.array(~gone[keys_of_result(piece, rows, self._keys)]))


def with_rows(piece: Piece, found: Sequence[tuple[Indices, Hits]], engine: MergeEngine) -> Piece:
    """A piece with further rows; ``found`` are keys (their numbers in the piece) and the row of each."""
    levels = [with_level(h.rows.select(piece.rows.column_names[:-1]), h.file.level) for _, h in found]
    rows = pa.concat_tables([piece.rows, pa.Table.from_batches(levels)])
    before = piece.rows.num_rows
    order = np.arange(before) if piece.order is None else piece.order
    order = np.concatenate([order, np.arange(before, rows.num_rows)])
    keys = np.concatenate([np.repeat(np.arange(len(piece.starts)), piece.sizes), *(k for k, _ in found)])
    ages = [rows.column(SEQUENCE_COLUMN).to_numpy()[order]]
    if engine.sequence_fields:
        columns = [one_array(rows.column(name)) for name in engine.sequence_fields]
        ages.append(order_numbers(columns, engine.smallest_is_newest)[order])
    by_age = np.lexsort((*ages, keys))
    starts = np.flatnonzero(np.diff(keys[by_age], prepend=-1))
    return Piece(rows, order[by_age], starts, piece.folds_alone)


def keys_of_result(piece: Piece, result: pa.Table, keys: Sequence[str]) -> Indices:
    """For each row of what a piece was folded to, the number of its key in the piece."""
    if result.num_rows == len(piece.starts):
        return np.arange(result.num_rows)
    return find_keys(_keys_of(result, keys), _keys_of(piece.rows_at(piece.starts), keys))


def old_rows(piece: Piece) -> tuple[pa.Table, Indices]:
    """The rows of levels ≥ 1 that count, without their level, and the numbers of their keys."""
    is_old = counting_rows(piece) & (piece.numbers(LEVEL_COLUMN) > 0)
    keys = np.repeat(np.arange(len(piece.starts)), piece.sizes)[is_old]
    return piece.rows_at(np.flatnonzero(is_old)).drop_columns([LEVEL_COLUMN]), keys


def _keys_of(rows: pa.Table, names: Sequence[str]) -> list[np.ndarray | pa.Array]:
    arrays = [one_array(rows.column(name)) for name in names]
    return key_parts(pa.RecordBatch.from_arrays(arrays, names=list(names)), names)
