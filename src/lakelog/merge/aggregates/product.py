"""Aggregate function ``product``; NULL does not count, a retraction divides."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.merge.aggregate import Aggregate, counted
from lakelog.merge.base import Indices
from lakelog.merge.steps import RETRACT, SET, Steps, in_turn

_SAFE: Final = float(1 << 62)
_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP, traps=[Inexact, InvalidOperation, DivisionByZero])
_ROUNDED: Final = Context(prec=400, rounding=ROUND_HALF_UP, traps=[InvalidOperation])


class Product(Aggregate):
    """Integers are exact, and an intermediate overflow is an error. Decimals become NULL on overflow."""

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
        work = numbers if pa.types.is_floating(column.type) else numbers.astype(np.int64)
        step = self._float_step if pa.types.is_floating(column.type) else self._whole_step(np.iinfo(numbers.dtype))
        result = np.zeros(len(starts), dtype=work.dtype)
        for groups, here in in_turn(starts, len(at)):
            value = work[here]
            if (here == starts[groups]).all():
                result[groups] = value
            else:
                result[groups] = step(result[groups], value, steps.ops[at[here]] == RETRACT)
        out = np.zeros(len(has_any), dtype=numbers.dtype)
        out[has_any] = result
        return pa.array(out, column.type, mask=~has_any)

    @staticmethod
    def _float_step(product: Any, value: Any, is_divisor: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(is_divisor, product / value, product * value)

    def _whole_step(self, limits: np.iinfo) -> Callable[[Any, Any, Any], npt.NDArray[np.int64]]:
        def step(product: Any, value: Any, is_divisor: Any) -> npt.NDArray[np.int64]:
            if (is_divisor & (value == 0)).any():
                raise self.no_result("a value of 0 cannot be retracted")
            divisor = np.where(is_divisor, value, 1)
            factor = np.where(is_divisor, 1, value)
            # numpy has no absolute value of the smallest number: it takes the exact path, like all that may not fit
            smallest = np.iinfo(np.int64).min
            wide = np.abs(product.astype(np.float64)) * np.abs(factor.astype(np.float64)) >= _SAFE
            out: npt.NDArray[np.int64] = np.sign(product) * np.sign(divisor) * (np.abs(product) // np.abs(divisor))
            out = out * factor
            outside = (out < limits.min) | (out > limits.max) | wide | (product == smallest) | (value == smallest)
            for i in np.flatnonzero(outside).tolist():
                left, right = int(product[i]), int(value[i])
                exact = left * right if not is_divisor[i] else abs(left) // abs(right)
                exact = -exact if is_divisor[i] and (left < 0) != (right < 0) else exact
                if not limits.min <= exact <= limits.max:
                    raise self.no_result(f"{exact} does not fit {self.field.type.to_json()}: use a larger type")
                out[i] = exact
            return out

        return step

    def _decimals(self, values: pa.Array, ops: np.ndarray, starts: Indices, has_any: np.ndarray) -> pa.Array:
        results: list[Decimal | None] = [None] * len(has_any)
        ends = np.append(starts[1:], len(values)).tolist() if len(starts) else []
        for key, start, end in zip(np.flatnonzero(has_any).tolist(), starts.tolist(), ends, strict=True):
            product: Decimal | None = None
            for value, op in zip(values[start:end].to_pylist(), ops[start:end].tolist(), strict=True):
                product = self._decimal_step(product, value, op, values.type)
            results[key] = product
        return pa.array(results, values.type)

    def _decimal_step(self, product: Decimal | None, value: Decimal, op: int, kind: pa.DataType) -> Decimal | None:
        if op == SET or product is None:
            # a product that did not fit was discarded: the next value starts a new one
            return None if op == RETRACT else value
        try:
            exact = _EXACT.divide(product, value) if op == RETRACT else _EXACT.multiply(product, value)
        except (Inexact, InvalidOperation, DivisionByZero):
            raise self.no_result(f"{product} / {value} has no exact result") from None
        rounded = _ROUNDED.quantize(exact, Decimal(1).scaleb(-kind.scale))
        return rounded if len(rounded.as_tuple().digits) <= kind.precision else None
