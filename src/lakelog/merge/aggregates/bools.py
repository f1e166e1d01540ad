"""Aggregate functions ``bool_and`` and ``bool_or``; NULL does not count."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, counted
from lakelog.merge.steps import Steps


class BoolAnd(Aggregate):
    """True if all values are true."""

    roots: ClassVar[tuple[str, ...] | None] = ("BOOLEAN",)
    retracts: ClassVar[bool] = False
    counts_once: ClassVar[bool] = True
    is_order_free: ClassVar[bool] = True
    _joined: ClassVar[np.ufunc] = np.logical_and

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        at, starts, has_any = steps.picked(counted(steps, steps.valid(column)))
        out = np.zeros(len(has_any), dtype=np.bool_)
        if len(at):
            values = column.take(pa.array(steps.rows[at])).to_numpy(zero_copy_only=False)
            out[has_any] = self._joined.reduceat(values, starts)
        return pa.array(out, mask=~has_any)


class BoolOr(BoolAnd):
    """True if any value is true."""

    _joined: ClassVar[np.ufunc] = np.logical_or
