"""Merge engine ``deduplicate``: the newest row of a key wins (format sheet, 8)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lakelog.merge.base import KIND_COLUMN, Indices, PickingEngine, Piece
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE


class Deduplicate(PickingEngine):
    """Keeps the newest row of each key.

    With ``ignore-delete`` it keeps the newest that is not a delete, and drops a key without one.
    """

    folds_again: ClassVar[bool] = True
    newest_wins: ClassVar[bool] = True

    @property
    def number_decides(self) -> bool:
        return not self.sequence_fields

    def pick(self, piece: Piece) -> Indices:
        if not self.ignore_delete:
            return piece.newest
        kinds = piece.numbers(KIND_COLUMN)
        counts = (kinds != DELETE) & (kinds != UPDATE_BEFORE)
        # the last counting position up to each position; it belongs to the key if it is not before its start
        last = np.maximum.accumulate(np.where(counts, np.arange(len(kinds)), -1))[piece.newest]
        kept: Indices = last[last >= piece.starts]
        return kept
