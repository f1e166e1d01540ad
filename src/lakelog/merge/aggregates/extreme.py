"""Aggregate functions ``max`` and ``min``; NULL does not count."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import SelectingAggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.numbers import total_order_numbers
from lakelog.merge.steps import Steps

_ORDERED = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "CHAR", "VARCHAR", "BINARY", "VARBINARY",
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ",
)  # fmt: skip


class Max(SelectingAggregate):
    """The largest value: NaN above all numbers, -0.0 below 0.0, text by its bytes."""

    roots: ClassVar[tuple[str, ...] | None] = _ORDERED
    retracts: ClassVar[bool] = False
    is_order_free: ClassVar[bool] = True
    _best: ClassVar[np.ufunc] = np.maximum

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        at, starts, has_any = steps.picked(counted(steps, steps.valid(column)))
        out = np.full(len(steps.starts), -1, dtype=np.int64)
        if not len(at):
            return out
        numbers = total_order_numbers(column.take(pa.array(steps.rows[at])))
        best = np.repeat(self._best.reduceat(numbers, starts), np.diff(starts, append=len(at)))
        hits = np.flatnonzero(numbers == best)
        out[has_any] = at[hits[np.searchsorted(hits, starts)]]
        return out


class Min(Max):
    """The smallest value."""

    _best: ClassVar[np.ufunc] = np.minimum
