"""The casts by which old values of a column are read after its type was changed, for the pairs of Apache Paimon.

A value keeps its meaning or is an error. Paimon's readers wrap, cut or drop what does not fit. Only floating-point
numbers are rounded, to the nearest one. Columns with a local time zone are taken as UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema, UnsupportedFeature
from lakelog.paimon.types import casts_from_text, casts_to_text
from lakelog.paimon.types.arrow import arrow_type, time_unit
from lakelog.paimon.types.types import MAX_LENGTH, ArrayType, AtomicType, DataType, MapType, RowType

_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS: Final = ("FLOAT", "DOUBLE")
_TEXT: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_STAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_NUMBERS: Final = (*_WHOLE, *_FLOATS, "DECIMAL")

_TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "BOOLEAN": (*_NUMBERS, *_TEXT),
    "TINYINT": (*_NUMBERS, *_TEXT, "BOOLEAN"),
    "SMALLINT": (*_NUMBERS, *_TEXT, "BOOLEAN"),
    "INT": (*_NUMBERS, *_TEXT, "BOOLEAN", *_STAMPS),
    "BIGINT": (*_NUMBERS, *_TEXT, "BOOLEAN", *_STAMPS),
    "FLOAT": (*_NUMBERS, *_TEXT),
    "DOUBLE": (*_NUMBERS, *_TEXT),
    "DECIMAL": (*_NUMBERS, *_TEXT),
    "CHAR": (*_NUMBERS, *_TEXT, *_BYTES, *_STAMPS, "BOOLEAN", "DATE", "TIME"),
    "VARCHAR": (*_NUMBERS, *_TEXT, *_BYTES, *_STAMPS, "BOOLEAN", "DATE", "TIME"),
    "BINARY": (*_BYTES, *_TEXT),
    "VARBINARY": (*_BYTES, *_TEXT),
    "DATE": ("VARCHAR", *_STAMPS),
    "TIME": ("VARCHAR", *_STAMPS),
    "TIMESTAMP": ("VARCHAR", *_STAMPS, "DATE", "TIME", "INT", "BIGINT"),
    "TIMESTAMP_LTZ": ("VARCHAR", *_STAMPS, "DATE", "TIME", "INT", "BIGINT"),
}
"""Type that was written → types that it can be read as."""

_DAY_MS: Final = 86_400_000
_FINER: Final = "finer than this type"
_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def can_cast(old: DataType, new: DataType) -> bool:
    """True if old values can be read when a column's type changes; the fields of a ROW change one by one instead."""
    if old.with_nullable(True) == new.with_nullable(True):
        return True
    if not isinstance(new, AtomicType):
        return False
    whole_text = new.root == "VARCHAR" and new.length == MAX_LENGTH
    if isinstance(old, AtomicType):
        # times become text only when nothing of it can be cut
        is_time = old.root in ("DATE", "TIME", *_STAMPS)
        same = old.root == new.root
        return (same or new.root in _TARGETS.get(old.root, ())) and (whole_text or new.root != "VARCHAR" or not is_time)
    parts: tuple[DataType, ...] = ()
    if isinstance(old, ArrayType):
        parts = (old.element,)
    elif isinstance(old, MapType):
        parts = (old.key, old.value)
    elif isinstance(old, RowType):
        parts = tuple(f.type for f in old.fields)
    text = AtomicType("VARCHAR", length=MAX_LENGTH)
    # the text of a nested value is never cut
    return new.root in _TEXT and bool(parts) and all(can_cast(part, text) for part in parts)


def cast_values(column: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    """A column of type ``old`` as type ``new``; NULL stays NULL.

    Raises UnsupportedFeature when there is no such cast, InvalidSchema naming the column when a value has no
    counterpart (text that is no number, a year that the type cannot hold).
    """
    if not can_cast(old, new) or not isinstance(new, AtomicType):
        raise UnsupportedFeature(
            f"column '{name}' was {old.to_json()} and is {new.to_json()} now: values cannot be read across this change"
        )
    try:
        cast = _cast(column, old, new)
        target = arrow_type(new)
        return cast if cast.type == target else cast.cast(target)
    except (pa.ArrowInvalid, ValueError, ArithmeticError) as why:
        raise InvalidSchema(
            f"column '{name}' was {old.to_json()} and is {new.to_json()} now, but has a value that does not convert: "
            f"{why}. Change the type back"
        ) from None


def _cast(column: pa.Array, old: DataType, new: AtomicType) -> pa.Array:
    if not isinstance(old, AtomicType):
        return _fit_text(casts_to_text.nested_text(column, old, _as_text), new)
    if new.root in _TEXT:
        return _fit_text(_as_text(column, old), new)
    if old.root in _TEXT:
        return _fit_bytes(column.cast(pa.binary()), new) if new.root in _BYTES else _parsed(column, old, new)
    if new.root in _BYTES:
        return _fit_bytes(column, new)
    if old.root in _STAMPS:
        return _from_stamp(column, old, new)
    if new.root in _STAMPS:
        return _to_stamp(column, old, new)
    return _number(column, old, new)


def _number(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    if old.root == "BOOLEAN":
        column, old = column.cast(pa.int32()), AtomicType("INT")
    target = arrow_type(new)
    if new.root == "BOOLEAN":
        _refuse(column, pc.and_(pc.not_equal(column, 0), pc.not_equal(column, 1)), "neither 0 nor 1")
        return column.cast(target)
    if old.root in _FLOATS and new.root == "DECIMAL":
        shortest = np.float32 if old.root == "FLOAT" else np.float64
        return casts_from_text.by_value(column, _float_decimal(new, shortest), target)
    if old.root == "DECIMAL" and new.root in _FLOATS:
        return _decimal_double(column, old).cast(target, safe=False)
    if old.root in _WHOLE and new.root == "DECIMAL":
        column = column.cast(pa.decimal128(19, 0))
    if old.root == "DOUBLE" and new.root == "FLOAT":
        numbers = column.cast(target, safe=False)
        is_gone = pc.and_(pc.is_finite(column), pc.invert(pc.is_finite(numbers)))
        is_zero = pc.and_(pc.not_equal(column, 0.0), pc.equal(numbers, pa.scalar(0.0, target)))
        _refuse(column, pc.or_(is_gone, is_zero), "outside the range of this type")
        return numbers
    return column.cast(target)


def _refuse(column: pa.Array, bad: pa.Array, why: str) -> None:
    """Raises ValueError for the first value of ``column`` that is ``bad``."""
    if pc.any(bad).as_py():
        raise ValueError(f"{column.filter(bad)[0].as_py()!r} is {why}")


def _with_nulls(values: np.ndarray[tuple[int], np.dtype[np.generic]], column: pa.Array) -> pa.Array:
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=mask)


def _decimal_double(column: pa.Array, old: AtomicType) -> pa.Array:
    if (old.precision or 0) > 18:
        return column.cast(pa.string()).cast(pa.float64())
    scale = old.scale or 0
    unscaled = column.view(pa.decimal128(38, 0)).cast(pa.int64())
    return pc.divide(unscaled.cast(pa.float64()), pa.scalar(10.0**scale))


def _float_decimal(new: AtomicType, shortest: Callable[[float], np.floating]) -> Callable[[float], Decimal]:
    return lambda value: casts_from_text.fit_decimal(Decimal(str(shortest(value))), new)


def _as_text(column: pa.Array, old: DataType) -> pa.Array:
    """The text of values, uncut."""
    if not isinstance(old, AtomicType):
        return casts_to_text.nested_text(column, old, _as_text)
    return casts_to_text.text_of(column, old)


def _fit_text(column: pa.Array, new: AtomicType) -> pa.Array:
    """Text that a type has room for; spaces beyond its length are no loss, as in a write."""
    length = new.length or 0
    if length == MAX_LENGTH:
        return column
    cut = pc.utf8_slice_codeunits(column, 0, length)
    _refuse(column, pc.not_equal(pc.utf8_rtrim(cut, " "), pc.utf8_rtrim(column, " ")), f"longer than {length}")
    return pc.utf8_rpad(cut, length) if new.root == "CHAR" else cut


def _fit_bytes(column: pa.Array, new: AtomicType) -> pa.Array:
    length = new.length or 0
    if length == MAX_LENGTH:
        return column
    _refuse(column, pc.greater(pc.binary_length(column), length), f"longer than {length}")
    if new.root == "VARBINARY":
        return column
    return casts_from_text.by_value(column, lambda value: value.ljust(length, b"\0"), pa.binary())


def _parsed(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    if old.root == "CHAR":
        column = pc.utf8_rtrim(column, " ")
    if new.root in _WHOLE:
        return casts_from_text.whole_numbers(column, arrow_type(new))
    parse = casts_from_text.parser(new)
    target = arrow_type(new)
    if new.root in ("DATE", "TIME", *_STAMPS):
        stored = pa.int64() if new.root in _STAMPS else pa.int32()
        return casts_from_text.by_value(column, parse, stored).cast(target)
    return casts_from_text.by_value(column, parse, target)


def _from_stamp(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    ticks = column.view(pa.int64())
    per_milli = _PER_MILLI[time_unit(old)]
    if new.root in _STAMPS:
        return _stamp(_rescaled(_whole(ticks, per_milli, new.precision or 0), per_milli, new), new)
    if new.root == "DATE":
        return _divided(ticks, _DAY_MS * per_milli, "no date, but a time of a day").cast(pa.int32()).cast(pa.date32())
    if new.root == "TIME":
        of_day = pc.and_(pc.greater_equal(ticks, 0), pc.less(ticks, _DAY_MS * per_milli))
        _refuse(column, pc.invert(of_day), "no time of day, but one of a date")
        return _divided(ticks, per_milli, _FINER).cast(pa.int32()).cast(pa.time32("ms"))
    return _divided(ticks, 1000 * per_milli, _FINER).cast(arrow_type(new))


def _whole(ticks: pa.Array, per_milli: int, digits: int) -> pa.Array:
    """Ticks without digits after those of a precision. Raises ValueError for others."""
    step = per_milli * 1000 // 10**digits
    return ticks if step <= 1 else pc.multiply(_divided(ticks, step, _FINER), step)


def _divided(numbers: pa.Array, divisor: int, why: str) -> pa.Array:
    """Quotients without a rest. Raises ValueError for others."""
    quotients = pc.divide(numbers, divisor)
    _refuse(numbers, pc.not_equal(pc.multiply(quotients, divisor), numbers), why)
    return quotients


def _rescaled(ticks: pa.Array, from_milli: int, new: AtomicType) -> pa.Array:
    to_milli = _PER_MILLI[time_unit(new)]
    if to_milli >= from_milli:
        return pc.multiply_checked(ticks, to_milli // from_milli)
    return pc.divide(ticks, from_milli // to_milli)


def _to_stamp(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    per_milli = _PER_MILLI[time_unit(new)]
    if old.root == "DATE":
        numbers, factor = column.view(pa.int32()).cast(pa.int64()), _DAY_MS * per_milli
    elif old.root == "TIME":
        numbers, factor = column.view(pa.int32()).cast(pa.int64()), per_milli
    else:
        numbers, factor = column.cast(pa.int64()), 1000 * per_milli
    return _stamp(pc.multiply_checked(numbers, factor), new)


def _stamp(ticks: pa.Array, new: AtomicType) -> pa.Array:
    return ticks.cast(pa.timestamp(time_unit(new))).view(arrow_type(new))
