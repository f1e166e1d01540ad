"""Casts of columns that raise for a finite number which the goal does not have; Arrow's makes it infinite.

Doors to a table use them: rows of writers, records of other producers, files of ``lakelog load``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_FLOAT_END: Final = 2.0**128 - 2.0**103
"""The smallest number that a FLOAT rounds to infinity."""


def exact_cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as Arrow casts it. Raises ArrowInvalid for a number, of any depth, outside of the range of FLOAT."""
    if pa.types.is_string(column.type) and pa.types.is_float32(kind):
        column = pc.cast(column, pa.float64())
    for numbers in _doubles(column, kind):
        lost = pc.and_(pc.is_finite(numbers), pc.greater_equal(pc.abs(numbers), _FLOAT_END))
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{numbers.filter(lost)[0].as_py()!r} is outside the range of this type")
    return pc.cast(column, kind)


def _doubles(column: pa.Array, kind: pa.DataType) -> Iterator[pa.Array]:
    """The parts of a column that are DOUBLE, and FLOAT in the goal."""
    if pa.types.is_float64(column.type) and pa.types.is_float32(kind):
        yield column
    elif pa.types.is_list(column.type) and pa.types.is_list(kind):
        yield from _doubles(column.flatten(), kind.value_type)
    elif pa.types.is_struct(column.type) and pa.types.is_struct(kind):
        for part, field in zip(column.flatten(), kind, strict=False):
            yield from _doubles(part, field.type)


def wide_type(kind: pa.DataType) -> pa.DataType:
    """The type with DOUBLE in place of FLOAT, at any depth but in maps: a text is read in it, and then cast."""
    if pa.types.is_float32(kind):
        return pa.float64()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(wide_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(wide_type(part.type)) for part in kind])
    return kind


def check_digits(rows: pa.Table) -> pa.Table:
    """The rows. Raises ArrowInvalid for a decimal, of any depth, with more digits than its type has.

    Arrow's readers of JSON count the digits of the text alone, and not the zeros that the scale adds.
    """
    for column in rows.columns:
        if has_decimals(column.type):
            column.validate(full=True)
    return rows


def has_decimals(kind: pa.DataType) -> bool:
    """Whether a type is a decimal, or has one as a part."""
    return pa.types.is_decimal(kind) or any(has_decimals(kind.field(i).type) for i in range(kind.num_fields))


def check_float(number: float, kind: pa.DataType) -> float:
    """The number. Raises ValueError for a finite one outside of the range of FLOAT, if the type is that."""
    if pa.types.is_float32(kind) and _FLOAT_END <= abs(number) < float("inf"):
        raise ValueError(f"{number!r} is outside the range of {kind}")
    return number
