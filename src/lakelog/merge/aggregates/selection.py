"""Aggregate functions whose result is one of the values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, SelectingAggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.numbers import total_order_numbers
from lakelog.merge.steps import ADD, ADD_REVERSED, RETRACT, SET, SKIP, Ops, Steps

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


class FirstNonNullValue(SelectingAggregate):
    """Keeps the first value; a later step replaces it only with an older one."""

    retracts: ClassVar[bool] = False

    def compared(self, column: pa.Array, steps: Steps) -> Indices | None:
        return self.pick(column, steps)

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops, valid = steps.ops, steps.valid(column)
        first = np.repeat(steps.first(valid & (ops == ADD)), steps.sizes) == np.arange(len(ops))
        out = steps.last((ops == SET) | first)
        for key in np.flatnonzero(steps.keys_of(ops == ADD_REVERSED)):
            start, stop = int(steps.starts[key]), int(steps.ends[key]) + 1
            row = _oldest(ops[start:stop], valid[start:stop])
            out[key] = row if row < 0 else start + row
        return out


def _oldest(ops: Ops, valid: np.ndarray) -> int:
    """The last step that counts in a key with older values, which replace the fixed first value."""
    row, is_fixed = -1, False
    for at in np.flatnonzero(ops != SKIP).tolist():
        if ops[at] == SET:
            row = at
        elif ops[at] == ADD and not is_fixed and valid[at]:
            row, is_fixed = at, True
        elif ops[at] == ADD_REVERSED:
            if not is_fixed and row >= 0 and valid[row]:
                is_fixed = True
            else:
                row = at
    return row


class FirstValue(SelectingAggregate):
    """Keeps the first value; a later step replaces it only with an older one."""

    retracts: ClassVar[bool] = False

    def compared(self, column: pa.Array, steps: Steps) -> Indices | None:
        return self.pick(column, steps)

    def pick(self, column: pa.Array, steps: Steps) -> Indices:
        ops = steps.ops
        added = (ops == ADD) | (ops == ADD_REVERSED)
        first = np.repeat(steps.first(added), steps.sizes) == np.arange(len(ops))
        # The first value counts even after a SET; an older one replaces it, unless it is the first itself.
        return steps.last((ops == SET) | (first & (ops == ADD)) | (~first & (ops == ADD_REVERSED)))


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
