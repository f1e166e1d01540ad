"""Aggregate function ``product``; NULL does not count, a retraction divides."""

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
