"""Merge engines of a package outside of lakelog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.aggregates import make_aggregate
from lakelog.merge.base import KIND_COLUMN, SEQUENCE_COLUMN, Contested, Indices, MergeEngine, PickingEngine, Piece
from lakelog.merge.engines.deduplicate import Deduplicate
from lakelog.merge.steps import ADD, Steps


class Longest(PickingEngine):
    """Keeps the row with the longest text in column ``name``, of equal ones the newest; NULL is the shortest."""

    folds_again: ClassVar[bool] = True

    @property
    def takes_retractions(self) -> bool:
        return False

    def needed_columns(self, wanted: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().needed_columns(wanted), *({"name"} - set(wanted))]))

    def pick(self, piece: Piece) -> Indices:
        lengths = pc.fill_null(pc.utf8_length(piece.rows.column("name")), -1).to_numpy()
        ordered = lengths if piece.order is None else lengths[piece.order]
        keys = np.repeat(np.arange(len(piece.starts)), piece.sizes)
        best: Indices = np.lexsort((np.arange(len(ordered)), ordered, keys))[piece.newest]
        return best


class LastNonNull(MergeEngine):
    """Keeps the newest value of each column that is not NULL."""

    @property
    def takes_retractions(self) -> bool:
        return False

    def fold(self, piece: Piece) -> pa.Table:
        contested = Contested.of(piece)
        if not len(contested.rows):
            return piece.rows_at(piece.newest)
        steps = Steps(contested.rows, np.full(len(contested.rows), ADD, np.uint8), contested.starts)
        folded = {}
        for name in piece.rows.column_names:
            if name not in (KIND_COLUMN, SEQUENCE_COLUMN, *self.schema.primary_keys):
                function = make_aggregate("last_non_null_value", self.schema.field(name), {})
                folded[name] = function.apply(contested.column(name), steps)
        return contested.folded(folded)


class Latest(Deduplicate):
    """Keeps the newest row under another name, so its tables may have a log."""
