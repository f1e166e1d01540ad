"""Merge engine ``first-row``: the oldest row of a key wins (format sheet, 8)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.merge.base import KIND_COLUMN, Indices, PickingEngine, Piece
from lakelog.options.table import SEQUENCE_FIELD
from lakelog.paimon.rows.row_kind import DELETE, UPDATE_BEFORE


class FirstRow(PickingEngine):
    """Keeps the oldest row of each key.

    A delete among several rows of a key is an error, or does not count with ``ignore-delete``.
    """

    folds_again: ClassVar[bool] = True
    oldest_wins: ClassVar[bool] = True
    changelog_producers: ClassVar[tuple[str, ...]] = ("none", "lookup")

    @property
    def takes_retractions(self) -> bool:
        return self.ignore_delete

    def check_options(self) -> None:
        super().check_options()
        if self.sequence_fields:
            raise InvalidOption(
                f"option '{SEQUENCE_FIELD.key}' = '{', '.join(self.sequence_fields)}' does not apply to merge engine "
                "'first-row', which keeps the first row: remove the option"
            )

    def pick(self, piece: Piece) -> Indices:
        kinds = piece.numbers(KIND_COLUMN)
        is_retract = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        if not is_retract.any():
            return piece.starts
        sizes = piece.sizes
        contested = is_retract & np.repeat(sizes > 1, sizes)
        if contested.any() and not self.ignore_delete:
            raise InvalidSchema(
                "merge engine 'first-row' accepts no rows of kind -U or -D: set 'ignore-delete' = 'true' to drop them"
            )
        counted = np.flatnonzero(~contested)
        first = np.searchsorted(counted, piece.starts)
        has_row = first < len(counted)
        positions = counted[first[has_row]]
        kept: Indices = positions[positions <= piece.newest[has_row]]
        return kept
