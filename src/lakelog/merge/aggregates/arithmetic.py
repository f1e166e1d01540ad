"""Aggregate functions ``sum`` and ``product``; NULL does not count, a retraction is undone."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.steps import RETRACT, Steps, in_turn

_SAFE: Final = float(1 << 62)
_LONG_KEY: Final = 256
"""Number of values of a key above which they are summed one by one, not in parallel with other keys."""
_WORD: Final = 1 << 64
_LONG_DIGITS: Final = 18


class Sum(Aggregate):
    """Integers and decimals are exact, and a sum that does not fit the column is NULL.

    Floats are added from the oldest to the newest.
    """

    roots: ClassVar[tuple[str, ...] | None] = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
    retracts_in_parts: ClassVar[bool] = True
    is_order_free: ClassVar[bool] = True
    neutral: ClassVar[Any] = 0

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        return self.fold_parts(column, steps)[0]

    def fold_parts(self, column: pa.Array, steps: Steps) -> list[pa.Array]:
        at, starts, has_any = steps.picked(counted(steps, steps.valid(column)))
        values = column.take(pa.array(steps.rows[at]))
        is_minus, missing, keys = steps.ops[at] == RETRACT, ~has_any, np.flatnonzero(has_any)
        if pa.types.is_floating(column.type):
            numbers = values.to_numpy()
            sums = np.zeros(len(has_any), dtype=numbers.dtype)
            sums[keys] = _added_in_turn(np.where(is_minus, -numbers, numbers), starts)
            return [pa.array(sums, column.type, mask=missing)]
        is_decimal = pa.types.is_decimal(column.type)
        numbers = unscaled(values) if is_decimal else values.to_numpy().astype(np.int64)
        most = 10**column.type.precision - 1 if is_decimal else int(np.iinfo(values.to_numpy().dtype).max)
        sums, large = _totals(numbers, is_minus, starts, -most - (not is_decimal), most)
        if not large and not is_decimal:
            totals = np.zeros(len(has_any), dtype=np.int64)
            totals[keys] = sums
            return [pa.array(totals.astype(values.to_numpy().dtype), column.type, mask=missing)]
        digits = np.full(len(has_any), None, dtype=object)
        digits[keys] = sums
        parts = [digits]
        for key, total in large.items():
            digits[keys[key]] = None
            left, number = total, 1
            while left:
                part = max(-most, min(most, left))
                left -= part
                if number == len(parts):
                    parts.append(np.full(len(has_any), None, dtype=object))
                parts[number][keys[key]] = part
                number += 1
        return [decimal_array(p, column.type) if is_decimal else pa.array(p.tolist(), column.type) for p in parts]


def _totals(
    numbers: npt.NDArray[Any], is_minus: np.ndarray, starts: Indices, low: int, high: int
) -> tuple[npt.NDArray[Any], dict[int, int]]:
    """The sum of each group, and those outside the limits by group; the numbers are int64, or Python's own."""
    if not len(numbers):
        return numbers, {}
    sums = np.add.reduceat(np.where(is_minus, -numbers, numbers), starts)
    is_large = np.asarray((sums < low) | (sums > high), dtype=np.bool_)
    if numbers.dtype == np.int64:  # which wraps around
        is_large |= np.add.reduceat(np.abs(numbers.astype(np.float64)), starts) >= _SAFE
    ends, large = np.append(starts[1:], len(numbers)), {}
    for key in np.flatnonzero(is_large).tolist():
        part = slice(int(starts[key]), int(ends[key]))
        exact = sum(-n if minus else n for n, minus in zip(numbers[part].tolist(), is_minus[part], strict=True))
        sums[key] = exact if low <= exact <= high else 0
        if not low <= exact <= high:
            large[key] = exact
    return sums, large


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
    """Decimals of Python numbers that fit the type (None: NULL)."""
    data = b"".join(int(d or 0).to_bytes(16, "little", signed=True) for d in digits)
    valid = pa.array([d is not None for d in digits], pa.bool_())
    return pa.Array.from_buffers(kind, len(digits), [valid.buffers()[1], pa.py_buffer(data)])


_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP, traps=[Inexact, InvalidOperation, DivisionByZero])
_ROUNDED: Final = Context(prec=400, rounding=ROUND_HALF_UP, traps=[InvalidOperation])


class Product(Aggregate):
    """Integers and decimals are exact, and a result that does not fit the column, or does not exist, is NULL."""

    is_order_free: ClassVar[bool] = True
    neutral: ClassVar[Any] = 1
    roots: ClassVar[tuple[str, ...] | None] = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

    def fold(self, column: pa.Array, steps: Steps) -> pa.Array:
        counts = counted(steps, steps.valid(column))
        is_divisor = steps.ops == RETRACT
        # no division before the first product
        begins = steps.first(counts & ~is_divisor)
        begins = np.where(begins < 0, len(steps.ops), begins)
        counts &= np.arange(len(steps.ops)) >= np.repeat(begins, steps.sizes)
        at, starts, has_any = steps.picked(counts)
        values = column.take(pa.array(steps.rows[at]))
        if pa.types.is_decimal(column.type):
            return self._decimals(values, steps.ops[at], starts, has_any)
        numbers = values.to_numpy()
        is_float = pa.types.is_floating(column.type)
        work = numbers if is_float else numbers.astype(np.int64)
        result, fits = np.zeros(len(starts), dtype=work.dtype), np.ones(len(starts), dtype=np.bool_)
        for groups, here in in_turn(starts, len(at)):
            value, is_first, divides = work[here], here == starts[groups], steps.ops[at[here]] == RETRACT
            if is_first.all():
                result[groups] = value
            elif is_float:
                result[groups] = self._float_step(result[groups], value, divides)
            else:
                result[groups], good = _whole_step(result[groups], value, divides, np.iinfo(numbers.dtype))
                fits[groups] &= good
        out, missing = np.zeros(len(has_any), dtype=numbers.dtype), ~has_any
        out[has_any] = result
        missing[has_any] = ~fits
        return pa.array(out, column.type, mask=missing)

    @staticmethod
    def _float_step(product: Any, value: Any, is_divisor: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(is_divisor, product / value, product * value)

    def _decimals(self, values: pa.Array, ops: np.ndarray, starts: Indices, has_any: np.ndarray) -> pa.Array:
        results: list[Decimal | None] = [None] * len(has_any)
        ends = np.append(starts[1:], len(values)).tolist() if len(starts) else []
        for key, start, end in zip(np.flatnonzero(has_any).tolist(), starts.tolist(), ends, strict=True):
            try:
                product = values[start].as_py()
                for value, op in zip(values[start + 1 : end].to_pylist(), ops[start + 1 : end].tolist(), strict=True):
                    product = _EXACT.divide(product, value) if op == RETRACT else _EXACT.multiply(product, value)
                    product = _ROUNDED.quantize(product, Decimal(1).scaleb(-values.type.scale))
            except (Inexact, InvalidOperation, DivisionByZero):
                continue
            results[key] = product if len(product.as_tuple().digits) <= values.type.precision else None
        return pa.array(results, values.type)


def _whole_step(
    product: Any, value: Any, is_divisor: Any, limits: np.iinfo
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The next products (int64), and a mask of those that exist and fit; the others are 0."""
    divisor = np.where(is_divisor & (value != 0), value, 1)
    factor = np.where(is_divisor, 1, value)
    # numpy has no absolute value of the smallest number: it takes the exact path, like all that may not fit
    smallest = np.iinfo(np.int64).min
    wide = np.abs(product.astype(np.float64)) * np.abs(factor.astype(np.float64)) >= _SAFE
    out: npt.NDArray[np.int64] = np.sign(product) * np.sign(divisor) * (np.abs(product) // np.abs(divisor))
    out = out * factor
    good: npt.NDArray[np.bool_] = ~is_divisor | (value != 0)
    outside = (out < limits.min) | (out > limits.max) | wide | (product == smallest) | (value == smallest)
    for i in np.flatnonzero(outside & good).tolist():
        left, right = int(product[i]), int(value[i])
        exact = left * right if not is_divisor[i] else abs(left) // abs(right)
        exact = -exact if is_divisor[i] and (left < 0) != (right < 0) else exact
        good[i] = limits.min <= exact <= limits.max
        out[i] = exact if good[i] else 0
    return np.where(good, out, 0), good
