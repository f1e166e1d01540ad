"""Aggregate function ``sum``; NULL does not count, a retraction is subtracted."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.keys import Numbers
from lakelog.merge.steps import RETRACT, Steps, in_turn

_SAFE: Final = float(1 << 62)
_LONG_KEY: Final = 256
"""Number of values of a key above which they are summed one by one, not in parallel with other keys."""
_WORD: Final = 1 << 64
_LONG_DIGITS: Final = 18


class Sum(Aggregate):
    """Integers are exact, and an intermediate overflow is an error.

    Decimals that do not fit become NULL; floats are added from the oldest to the newest.
    """

    roots: ClassVar[tuple[str, ...] | None] = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        at, starts, has_any = steps.picked(counted(steps, steps.valid(column)))
        values = column.take(pa.array(steps.rows[at]))
        is_minus = steps.ops[at] == RETRACT
        if pa.types.is_decimal(column.type):
            return self._decimals(values, is_minus, starts, has_any)
        numbers = values.to_numpy()
        sums: npt.NDArray[Any]
        if pa.types.is_floating(column.type):
            sums = _added_in_turn(np.where(is_minus, -numbers, numbers), starts)
        else:
            sums = self._whole(numbers.astype(np.int64), is_minus, starts, np.iinfo(numbers.dtype))
        out = np.zeros(len(has_any), dtype=numbers.dtype)
        out[has_any] = sums
        return pa.array(out, column.type, mask=~has_any)

    def _whole(self, numbers: Numbers, is_minus: np.ndarray, starts: Indices, limits: np.iinfo) -> Numbers:
        if not len(numbers):
            return numbers
        ends = np.append(starts[1:], len(numbers))
        signed = np.where(is_minus, -numbers, numbers)
        totals = np.cumsum(signed)
        # numpy's numbers wrap around, so a difference is right as long as the sum of the key itself fits
        running = totals - np.repeat(totals[starts] - signed[starts], ends - starts)
        risky = np.add.reduceat(np.abs(numbers.astype(np.float64)), starts) >= _SAFE
        outside = (running < limits.min) | (running > limits.max)
        for key in np.flatnonzero(risky | np.logical_or.reduceat(outside, starts)).tolist():
            total = 0
            for at in range(int(starts[key]), int(ends[key])):
                total += -int(numbers[at]) if is_minus[at] else int(numbers[at])
                if not limits.min <= total <= limits.max:
                    raise self.no_result(f"{total} does not fit {self.field.type.to_json()}: use a larger type")
        sums: Numbers = running[ends - 1]
        return sums

    def _decimals(self, values: pa.Array, is_minus: np.ndarray, starts: Indices, has_any: np.ndarray) -> pa.Array:
        numbers = unscaled(values)
        ends = np.append(starts[1:], len(numbers))
        short = is_short_decimal(values.type)
        sums = np.full(len(has_any), None, dtype=object)
        if short and len(numbers):
            signed = np.where(is_minus, -numbers, numbers)
            easy = np.add.reduceat(np.abs(numbers.astype(np.float64)), starts) < _SAFE
            sums[has_any] = np.add.reduceat(signed, starts)
        else:
            easy = np.zeros(len(starts), dtype=np.bool_)
        # the format checks short decimals against 64 bits only
        limit = (1 << 63) - 1 if short else 10**values.type.precision - 1
        keys = np.flatnonzero(has_any)
        for key in np.flatnonzero(~easy).tolist():
            total: int | None = None
            for at in range(int(starts[key]), int(ends[key])):
                number = -int(numbers[at]) if is_minus[at] else int(numbers[at])
                total = number if total is None else total + number
                if not -limit - short <= total <= limit:
                    total = None
            sums[keys[key]] = total
        return decimal_array(sums, values.type)


def _added_in_turn(numbers: npt.NDArray[np.floating], starts: Indices) -> npt.NDArray[np.floating]:
    """Sums of groups, from the first to the last number, because another order would round differently."""
    ends = np.append(starts[1:], len(numbers)) if len(starts) else starts
    out = np.zeros(len(starts), dtype=numbers.dtype)
    is_long = ends - starts > _LONG_KEY
    for key in np.flatnonzero(is_long).tolist():
        out[key] = np.add.accumulate(numbers[starts[key] : ends[key]])[-1]
    short = np.flatnonzero(~is_long)
    sizes = (ends - starts)[short]
    inner = np.cumsum(sizes) - sizes
    shift = starts[short] - inner
    for groups, at in in_turn(inner, int(sizes.sum())):
        value = numbers[at + shift[groups]]
        out[short[groups]] = np.where(at == inner[groups], value, out[short[groups]] + value)
    return out


def is_short_decimal(kind: pa.DataType) -> bool:
    """True if the digits fit in 64 bits."""
    return bool(kind.precision <= _LONG_DIGITS)


def unscaled(values: pa.Array) -> npt.NDArray[Any]:
    """The digits of decimals without NULL: int64 for short ones, else Python numbers."""
    words = np.frombuffer(values.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    if is_short_decimal(values.type):
        low: npt.NDArray[np.int64] = words[:, 0]
        return low
    digits: npt.NDArray[Any] = words[:, 1].astype(object) * _WORD + words[:, 0].view(np.uint64).astype(object)
    return digits


def decimal_array(digits: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Decimals of Python numbers (None: NULL). Excess digits for the type stay, as the format does not check them."""
    data = b"".join(int(d or 0).to_bytes(16, "little", signed=True) for d in digits)
    valid = pa.array([d is not None for d in digits], pa.bool_())
    return pa.Array.from_buffers(kind, len(digits), [valid.buffers()[1], pa.py_buffer(data)])
