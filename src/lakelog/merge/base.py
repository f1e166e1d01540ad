"""What a merge engine gets and gives: one piece of a merge, rows of complete keys, sorted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEQUENCE_COLUMN: Final = "_SEQUENCE_NUMBER"
KIND_COLUMN: Final = "_VALUE_KIND"

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """All rows of some keys.

    ``order`` lists the rows by key and, inside a key, from the oldest to the newest; None says that ``rows`` have this
    order already. ``starts`` are the positions in that order at which a key begins (the first is 0).
    """

    rows: pa.Table
    order: Indices | None
    starts: Indices

    @property
    def newest(self) -> Indices:
        """The position in the order of the newest row of each key."""
        return np.append(self.starts[1:], self.rows.num_rows) - 1

    def rows_at(self, positions: Indices) -> pa.Table:
        """The rows at positions of the order."""
        if self.order is not None:
            return self.rows.take(pa.array(self.order[positions]))
        if len(positions) == self.rows.num_rows:
            return self.rows
        return self.rows.take(pa.array(positions))


class MergeEngine(ABC):
    """Decides what the rows of one key become. Stateless; the same call for reads, flushes and compactions.

    ``ignore_delete`` is the option ``ignore-delete``: rows of kind -U and -D do not count.
    """

    def __init__(self, ignore_delete: bool = False) -> None:
        self.ignore_delete = ignore_delete

    @abstractmethod
    def fold(self, piece: Piece) -> pa.Table:
        """One row per key at most, in key order, with the columns of the piece.

        ``_VALUE_KIND`` stays: a key whose result is a delete keeps a row of kind -D (or -U), which a batch read drops
        and a compaction that does not reach the highest level must keep.
        """
