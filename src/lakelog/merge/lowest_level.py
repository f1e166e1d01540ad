"""Tables whose compactions look up replaced rows: a row of a level ≥ 1 is the whole value of its key.

A compaction of such a table merges the rows of level 0 with the rows of their keys on all higher levels. It writes the
result to a level that may be below the old value. So of the rows of one key only those of level 0 and the one of the
lowest level ≥ 1 count (format sheet 7, 8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.merge.base import Mask, MergeEngine, Piece

LEVEL_COLUMN: Final = "_LEVEL"
"""The level of a row's file (int8), the last column of this engine's input rows."""

PARTS_LEVEL: Final = -1
"""Stands for the level of parts of totals that a compaction kept on level 0: they count, and are nothing new."""

_NO_LEVEL: Final = np.int64(np.iinfo(np.int8).max)


class LowestLevel(MergeEngine):
    """Drops rows that do not count and folds the others with the table's engine; drops ``_LEVEL``.

    A key with one remaining row is folded too, as in the format's own engine. Only a key that had one row originally
    stays unchanged.
    """

    def __init__(self, inner: MergeEngine) -> None:
        super().__init__(inner.schema)
        self.inner = inner

    @property
    def takes_retractions(self) -> bool:
        return self.inner.takes_retractions

    @property
    def keeps_deleted_keys(self) -> bool:
        return self.inner.keeps_deleted_keys

    def needed_columns(self, columns: Iterable[str]) -> tuple[str, ...]:
        return self.inner.needed_columns(columns)

    def fold(self, piece: Piece) -> pa.Table:
        return self.inner.fold(_counting(piece))

    def fold_whole(self, piece: Piece) -> list[pa.Table]:
        return self.inner.fold_whole(_counting(piece))


def with_level(batch: pa.RecordBatch, level: int) -> pa.RecordBatch:
    """The batch with the level of its file as the last column."""
    levels = pa.array(np.full(batch.num_rows, level, dtype=np.int8))
    return batch.append_column(LEVEL_COLUMN, levels)


def counting_rows(piece: Piece) -> Mask:
    """A mask, in the order of the piece, of the rows that count: level 0, or the lowest level ≥ 1 of the key."""
    levels = piece.numbers(LEVEL_COLUMN)
    above = np.where(levels > 0, levels, _NO_LEVEL)
    lowest = np.repeat(np.minimum.reduceat(above, piece.starts), piece.sizes)
    counts: Mask = (levels <= 0) | (above == lowest)
    return counts


def _counting(piece: Piece) -> Piece:
    """The piece with only the rows that count, without their levels."""
    counts = counting_rows(piece)
    rest = replace(piece, rows=piece.rows.drop_columns([LEVEL_COLUMN]))
    return rest if counts.all() else _only(rest, counts)


def _only(piece: Piece, counts: Mask) -> Piece:
    """The piece with only the rows that count; every key has at least one."""
    kept = np.flatnonzero(counts)
    sizes = np.add.reduceat(counts.astype(np.int64), piece.starts)
    folds_alone = piece.sizes > 1 if piece.folds_alone is None else (piece.sizes > 1) | piece.folds_alone
    return Piece(piece.rows_at(kept), None, np.cumsum(sizes) - sizes, folds_alone)
