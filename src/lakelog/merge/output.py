"""The output of a merge: its columns, with or without deleted keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.merge.base import KIND_COLUMN, MergeEngine, PickingEngine, Piece
from lakelog.paimon.rows.row_kind import INSERT, UPDATE_AFTER


@dataclass(frozen=True)
class Output:
    """The requested columns, in order (None: all input columns); ``with_deletes`` includes a row of each deleted key.

    Requesting less from the merge is cheaper than dropping it afterwards, because rows are copied once.
    """

    columns: tuple[str, ...] | None = None
    with_deletes: bool = True

    def of(self, piece: Piece, engine: MergeEngine) -> pa.Table:
        """The folded rows of a piece, in key order."""
        if not isinstance(engine, PickingEngine):
            return self._of_rows(engine.fold(piece))
        positions = engine.pick(piece)
        if not self.with_deletes:
            kinds = piece.numbers(KIND_COLUMN)[positions]
            positions = positions[(kinds == INSERT) | (kinds == UPDATE_AFTER)]
        # Rows cannot be taken from a table without columns, so one column stays until the rows are picked.
        rows = piece.rows if self.columns is None else piece.rows.select(self.columns or piece.rows.column_names[:1])
        picked = replace(piece, rows=rows).rows_at(positions)
        return picked if self.columns is None else picked.select(self.columns)

    def _of_rows(self, rows: pa.Table) -> pa.Table:
        kept = rows if self.with_deletes else live_rows(rows)
        return kept if self.columns is None else kept.select(self.columns)


def live_rows(rows: pa.Table) -> pa.Table:
    """The rows whose ``_VALUE_KIND`` is not a delete."""
    kinds = rows.column(KIND_COLUMN)
    is_row = pc.or_(pc.equal(kinds, INSERT), pc.equal(kinds, UPDATE_AFTER))
    return rows if pc.all(is_row).as_py() else rows.filter(is_row)


def in_age_order(ranges: Iterable[tuple[int, int]]) -> bool:
    """True if all sequence numbers of a run are above those of earlier runs, from (smallest, largest) of each.

    The position of a run then determines the age of its rows, and the numbers themselves need not be read.
    """
    bounds = np.array(list(ranges), dtype=np.int64).reshape(-1, 2)
    return bool((bounds[1:, 0] > bounds[:-1, 1]).all())
