"""Merge of a compaction that looks up replaced rows in the levels above its output (format sheet 7, 10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.filestore.compaction.upper_levels import Hits, UpperLevels
from lakelog.merge.base import SEQUENCE_COLUMN, Indices, Mask, MergeEngine, Piece, one_array
from lakelog.merge.keys import find_keys, key_parts
from lakelog.merge.lowest_level import LEVEL_COLUMN, PARTS_LEVEL, LowestLevel, counting_rows, with_level
from lakelog.merge.numbers import order_numbers

OnChanges = Callable[[pa.Table, pa.Table, Mask, Mask], None]
"""Callback with the old and new rows of keys, and masks of the keys with each (``merge.changes.change_rows``)."""


class LookupMerge(MergeEngine):
    """Folds as ``LowestLevel``, and looks up the old rows of keys with only level-0 rows in the upper levels.

    ``on_hits`` receives each found row. If ``takes_rows``, the finder returns whole rows, which take part in the merge.
    ``on_changes``, which needs them, receives the changes of the keys of level 0.
    """

    def __init__(
        self,
        inner: MergeEngine,
        upper: UpperLevels,
        takes_rows: bool,
        on_hits: Callable[[Hits], None] | None = None,
        on_changes: OnChanges | None = None,
    ) -> None:
        super().__init__(inner.schema)
        self._lowest = LowestLevel(inner)
        self._keys = inner.schema.trimmed_primary_keys
        self._upper, self._takes_rows, self._on_hits, self._on_changes = upper, takes_rows, on_hits, on_changes

    def fold(self, piece: Piece) -> pa.Table:
        return self.fold_whole(piece)[0]

    def fold_whole(self, piece: Piece) -> list[pa.Table]:
        whole = self._completed(piece)
        rows, *parts = self._lowest.fold_whole(whole)
        if self._on_changes is not None:
            levels = whole.numbers(LEVEL_COLUMN)
            is_new = np.logical_or.reduceat(levels == 0, whole.starts)
            is_old = counting_rows(whole) & (levels > 0)
            report_changes(self._on_changes, self._keys, whole, rows, is_old, is_new)
        return [rows, *parts]

    def _completed(self, piece: Piece) -> Piece:
        """The piece with the found rows; its keys are folded even if they have one row."""
        levels = piece.numbers(LEVEL_COLUMN)
        asked = np.flatnonzero(np.maximum.reduceat(levels, piece.starts) <= 0)
        folded = replace(piece, folds_alone=np.ones(len(piece.starts), dtype=np.bool_))
        if not len(asked):
            return folded
        found = []
        for hits in self._upper.find(_keys_of(piece.rows_at(piece.starts[asked]), self._keys)):
            if self._on_hits is not None:
                self._on_hits(hits)
            found.append(hits)
        return with_rows(folded, [(asked[h.keys], h) for h in found], self) if found and self._takes_rows else folded


class OldestRowLookup(MergeEngine):
    """Folds for engines whose oldest row wins: a key in an upper level keeps its row, and others are reported."""

    def __init__(self, inner: MergeEngine, upper: UpperLevels, on_changes: OnChanges | None = None) -> None:
        super().__init__(inner.schema)
        self._inner, self._upper, self._on_changes = inner, upper, on_changes
        self._keys = inner.schema.trimmed_primary_keys

    def fold(self, piece: Piece) -> pa.Table:
        is_new = np.maximum.reduceat(piece.numbers(LEVEL_COLUMN), piece.starts) == 0
        rows = self._inner.fold(replace(piece, rows=piece.rows.drop_columns([LEVEL_COLUMN])))
        asked = np.flatnonzero(is_new)
        is_known = np.zeros(len(is_new), dtype=np.bool_)
        if len(asked):
            for hits in self._upper.find(_keys_of(piece.rows_at(piece.starts[asked]), self._keys)):
                is_known[asked[hits.keys]] = True
        if self._on_changes is not None:
            report_changes(
                self._on_changes,
                self._keys,
                piece,
                rows,
                np.zeros(piece.rows.num_rows, dtype=np.bool_),
                is_new & ~is_known,
            )
        return rows.filter(pa.array(~is_known[keys_of_result(piece, rows, self._keys)])) if is_known.any() else rows


class TopLevelChanges(MergeEngine):
    """Reports the changes of keys against the highest level in a full compaction; folds as the engine ``inner``."""

    def __init__(self, inner: MergeEngine, top_level: int, on_changes: OnChanges) -> None:
        super().__init__(inner.schema)
        self._inner, self._top_level, self._on_changes = inner, top_level, on_changes
        self._keys = inner.schema.trimmed_primary_keys

    def fold(self, piece: Piece) -> pa.Table:
        return self.fold_whole(piece)[0]

    def fold_whole(self, piece: Piece) -> list[pa.Table]:
        levels = piece.numbers(LEVEL_COLUMN)
        is_old = levels == self._top_level
        takes_levels = isinstance(self._inner, LowestLevel)
        merged = piece if takes_levels else replace(piece, rows=piece.rows.drop_columns([LEVEL_COLUMN]))
        rows, *parts = self._inner.fold_whole(merged)
        # a key with only a row of the highest level, and its parts, is unchanged
        is_new = np.logical_or.reduceat(~is_old & (levels != PARTS_LEVEL), piece.starts)
        report_changes(self._on_changes, self._keys, piece, rows, is_old, is_new)
        return [rows, *parts]


def report_changes(
    on_changes: OnChanges, keys: Sequence[str], piece: Piece, result: pa.Table, is_old: Mask, is_reported: Mask
) -> None:
    """Reports the changes of keys (with the key columns ``keys``) of a piece with levels, folded to ``result``.

    ``is_old`` marks the old rows in the order of the piece, at most one per key. ``is_reported`` marks the keys to
    report.
    """
    names = result.column_names
    of_row = np.repeat(np.arange(len(piece.starts)), piece.sizes)
    at = np.flatnonzero(is_old & is_reported[of_row])
    of_result = keys_of_result(piece, result, keys)
    kept = is_reported[of_result]
    has_before, has_after = (np.zeros(len(piece.starts), dtype=np.bool_) for _ in range(2))
    has_before[of_row[at]] = True
    has_after[of_result[kept]] = True
    before = piece.rows_at(at).select(names)
    on_changes(
        before, result if kept.all() else result.filter(pa.array(kept)), has_before[is_reported], has_after[is_reported]
    )


def with_rows(piece: Piece, found: Sequence[tuple[Indices, Hits]], engine: MergeEngine) -> Piece:
    """A piece with additional rows; ``found`` are keys (their numbers in the piece) and their rows."""
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
    """For each row of a folded piece, the number of its key in the piece."""
    if result.num_rows == len(piece.starts):
        return np.arange(result.num_rows)
    return find_keys(_keys_of(result, keys), _keys_of(piece.rows_at(piece.starts), keys))


def _keys_of(rows: pa.Table, names: Sequence[str]) -> list[np.ndarray | pa.Array]:
    arrays = [one_array(rows.column(name)) for name in names]
    return key_parts(pa.RecordBatch.from_arrays(arrays, names=list(names)), names)
