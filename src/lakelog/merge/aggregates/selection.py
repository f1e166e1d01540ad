"""Aggregate functions whose result is one of the values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, SelectingAggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.numbers import total_order_numbers
from lakelog.merge.steps import ADD, ADD_REVERSED, RETRACT, SET, Steps

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


class FirstValue(SelectingAggregate):
    """Keeps the first value since the last SET; a later step replaces it only with an older one.

    So a value stands for all steps that led to it, and a fold of it and later steps has the same result.
    """

    retracts: ClassVar[bool] = False

    def compared(self, column: pa.Array, steps: Steps) -> Indices | None:
        return self.pick(column, steps)

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops, counts = steps.ops, self._counts(column, steps)
        added = ((ops == ADD) | (ops == ADD_REVERSED)) & steps.since_set
        first = np.repeat(steps.first(added & counts), steps.sizes) == np.arange(len(ops))
        out = steps.last(first | (added & counts & (ops == ADD_REVERSED)))
        return np.where((out < 0) & (steps.last(added) < 0), steps.last(ops == SET), out)

    def _counts(self, column: pa.Array, steps: Steps) -> np.ndarray:
        """A mask of the steps whose value counts."""
        return np.ones(len(steps.ops), dtype=np.bool_)


class FirstNonNullValue(FirstValue):
    """As ``FirstValue``; NULL does not count."""

    def _counts(self, column: pa.Array, steps: Steps) -> np.ndarray:
        return steps.valid(column)


class LastValue(SelectingAggregate):
    """A retraction results in NULL."""

    retracts_in_parts: ClassVar[bool] = True
    is_of_newest: ClassVar[bool] = True
    is_order_free: ClassVar[bool] = True
    may_retract_to_null: ClassVar[bool] = True

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        last = steps.last((ops == ADD) | (ops == SET) | (ops == RETRACT))
        return np.where((last >= 0) & (ops[last] != RETRACT), last, -1)


class LastNonNullValue(SelectingAggregate):
    """A retraction of a value results in NULL, one of NULL does nothing."""

    retracts_apart: ClassVar[bool] = True
    is_of_newest: ClassVar[bool] = True
    may_retract_to_null: ClassVar[bool] = True
    shows_own: ClassVar[bool] = True

    def compared(self, column: pa.Array, steps: Steps) -> Indices | None:
        ops, valid = steps.ops, steps.valid(column)
        return steps.last((valid & ((ops == ADD) | (ops == RETRACT))) | (ops == SET))

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops, valid = steps.ops, steps.valid(column)
        last = steps.last((valid & ((ops == ADD) | (ops == RETRACT))) | (ops == SET))
        has_value = (last >= 0) & valid[last] & (ops[last] != RETRACT)
        reversed_ = valid & (ops == ADD_REVERSED)
        if not reversed_.any():
            return np.where(has_value, last, -1)
        # an older value counts only if there is no newer one
        later = np.arange(len(ops)) > np.repeat(last, steps.sizes)
        return np.where(has_value, last, steps.first(reversed_ & later))


class PrimaryKey(SelectingAggregate):
    """Also used for columns that simply follow the newest row."""

    retracts_in_parts: ClassVar[bool] = True
    is_of_newest: ClassVar[bool] = True
    is_order_free: ClassVar[bool] = True

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        return steps.last((ops == ADD) | (ops == SET) | (ops == RETRACT))


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
