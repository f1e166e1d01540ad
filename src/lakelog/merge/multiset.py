"""Rows without a key: each retraction removes one equal row that came before it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.merge.base import KIND_COLUMN, Indices, MergeEngine, Piece
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER


class Multiset(MergeEngine):
    """Keeps the rows that no later retraction removes; the keys of its pieces tell equal rows from others.

    A retraction without an equal row before it removes nothing. Used by reads only.
    """

    def fold(self, piece: Piece) -> pa.Table:
        adds = np.isin(piece.numbers(KIND_COLUMN), (INSERT, UPDATE_AFTER))
        signs = np.where(adds, 1, -1)
        sums = np.cumsum(signs)
        before = (sums - signs)[piece.starts]
        lowest = np.minimum.reduceat(sums, piece.starts) - before
        left = sums[piece.newest] - before - np.minimum(lowest, 0)
        added = np.cumsum(adds)
        rank: Indices = added - np.repeat((added - adds)[piece.starts], piece.sizes)
        return piece.rows_at(np.flatnonzero(adds & (rank <= np.repeat(left, piece.sizes))))
