"""Places rows on a Z-order curve: rows that are near in several columns get numbers that are near (Morton 1966)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

_MOST_BITS: Final = 10
_ALL_BITS: Final = 62


@dataclass(frozen=True)
class ZOrder:
    """A curve through several columns. Picklable.

    A column counts by its rank among ``bounds``, one Arrow array for each, ascending, so that skewed and long values
    spread evenly. NULL is the lowest.
    """

    bounds: tuple[pa.Array, ...]

    @classmethod
    def of_sample(cls, columns: Sequence[pa.ChunkedArray]) -> ZOrder:
        """The curve through columns of a sample of the rows: each into as many equal parts as its bits can tell."""
        bits = min(_MOST_BITS, _ALL_BITS // max(1, len(columns)))
        return cls(tuple(_bounds(column, 1 << bits) for column in columns))

    def places(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The place of each row on the curve, int64 from 0; ``columns`` as the bounds are."""
        width = max((len(bounds) for bounds in self.bounds), default=0).bit_length()
        ranks = [_ranks(column, bounds, width) for column, bounds in zip(columns, self.bounds, strict=True)]
        out = np.zeros(len(columns[0]), np.int64)
        for bit in range(width):
            for at, rank in enumerate(ranks):
                out |= ((rank >> bit) & 1) << (bit * len(ranks) + len(ranks) - 1 - at)
        return pa.array(out)


def _bounds(column: pa.ChunkedArray, parts: int) -> pa.Array:
    """At most ``parts`` - 1 values that cut the sample into parts of like size."""
    values = pl.Series(column).drop_nulls().sort()
    if not len(values):
        return pa.array([], column.type)
    cuts = np.unique(np.linspace(0, len(values) - 1, parts, dtype=np.int64)[1:])
    return values.gather(cuts).unique(maintain_order=True).to_arrow().cast(column.type)


def _ranks(column: pa.Array, bounds: pa.Array, width: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ranks of ``width`` bits: a column of few values counts as much as one of many."""
    if not len(bounds):
        return np.zeros(len(column), np.int64)
    held = pl.Series(bounds)
    found = held.search_sorted(pl.Series(column).cast(held.dtype), side="right").to_numpy().astype(np.int64)
    return (found << width) // (len(bounds) + 1)
