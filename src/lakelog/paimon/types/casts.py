"""The casts by which old values of a column are read after its type was changed, as Apache Paimon does them.

They differ from SQL's in what overflows: whole numbers wrap as in Java, floats saturate, decimals become NULL, text
that is no value is an error. Columns with a local time zone are taken as UTC.
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

_NUMPY: Final = {
    "TINYINT": np.int8,
    "SMALLINT": np.int16,
    "INT": np.int32,
    "BIGINT": np.int64,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}
_WIDE: Final = 76
_DAY_MS: Final = 86_400_000
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
        found = _cast(column, old, new)
        wanted = arrow_type(new)
        return found if found.type == wanted else found.cast(wanted)
    except (pa.ArrowInvalid, ValueError, ArithmeticError) as why:
        raise InvalidSchema(
            f"column '{name}' was {old.to_json()} and is {new.to_json()} now, but has a value that does not convert: "
            f"{why}. Change the type back"
        ) from None


def _cast(column: pa.Array, old: DataType, new: AtomicType) -> pa.Array:
    if not isinstance(old, AtomicType):
        return casts_to_text.nested_text(column, old, _as_text)
    if new.root in _TEXT:
        return _fit_text(_as_text(column, old), new, old)
    if old.root in _TEXT:
        return _fit_bytes(column.cast(pa.binary()), new) if new.root in _BYTES else _parsed(column, new)
    if new.root in _BYTES:
        return _fit_bytes(column, new)
    if old.root in _STAMPS:
        return _from_stamp(column, old, new)
    if new.root in _STAMPS:
        return _to_stamp(column, old, new)
    if new.root == "BOOLEAN":
        return pc.not_equal(column, pa.scalar(0, column.type))
    return _number(column, old, new)


def _number(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    if old.root == "BOOLEAN":
        column, old = column.cast(pa.int32()), AtomicType("INT")
    if new.root == "DECIMAL":
        if old.root in _FLOATS:
            return casts_from_text.by_value(column.cast(pa.float64()), _float_decimal(new), arrow_type(new))
        return _rescaled(column if old.root == "DECIMAL" else column.cast(pa.decimal128(19, 0)), new)
    if old.root == "DECIMAL":
        if new.root in _WHOLE:
            return _wrapped(column.cast(pa.int64(), safe=False), new)
        return _decimal_double(column, old).cast(arrow_type(new), safe=False)
    if old.root in _FLOATS and new.root in _WHOLE:
        return _saturated(column, new)
    return _wrapped(column, new)


def _wrapped(column: pa.Array, new: AtomicType) -> pa.Array:
    """Numbers as in C and Java: whole ones keep their low bits, floats round to the nearest."""
    with np.errstate(over="ignore"):
        return _with_nulls(_filled(column).astype(_NUMPY[new.root]), column)


def _saturated(column: pa.Array, new: AtomicType) -> pa.Array:
    """Floats as whole numbers: cut, held at the ends of INT or BIGINT, NaN as 0; smaller types keep the low bits."""
    middle = np.int64 if new.root == "BIGINT" else np.int32
    limits = np.iinfo(middle)
    values = np.trunc(_filled(column).astype(np.float64))
    values[np.isnan(values)] = 0
    too_high, too_low = values >= float(limits.max), values <= float(limits.min)
    values[too_high | too_low] = 0
    whole = values.astype(middle)
    whole[too_high], whole[too_low] = limits.max, limits.min
    return _with_nulls(whole.astype(_NUMPY[new.root]), column)


def _filled(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    filled = column.fill_null(0) if column.null_count else column
    return np.array(filled.to_numpy(zero_copy_only=False))


def _with_nulls(values: np.ndarray[tuple[int], np.dtype[np.generic]], column: pa.Array) -> pa.Array:
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=mask)


def _rescaled(column: pa.Array, new: AtomicType) -> pa.Array:
    """Decimals with another scale, rounded half away from zero; NULL where the digits do not suffice."""
    precision, scale = new.precision or 0, new.scale or 0
    wide = column.cast(pa.decimal256(_WIDE - 38 + column.type.scale, column.type.scale))
    if scale < column.type.scale:
        wide = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    wide = wide.cast(pa.decimal256(_WIDE, scale))
    fits = pc.less(pc.abs(wide), pa.scalar(Decimal(10) ** (precision - scale), wide.type))
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(pa.decimal128(precision, scale))


def _decimal_double(column: pa.Array, old: AtomicType) -> pa.Array:
    if (old.precision or 0) > 18:
        return column.cast(pa.string()).cast(pa.float64())
    scale = old.scale or 0
    unscaled = column.view(pa.decimal128(38, 0)).cast(pa.int64())
    return pc.divide(unscaled.cast(pa.float64()), pa.scalar(10.0**scale))


def _float_decimal(new: AtomicType) -> Callable[[float], Decimal | None]:
    return lambda value: casts_from_text.fit_decimal(Decimal(repr(value)), new)


def _as_text(column: pa.Array, old: DataType) -> pa.Array:
    """The text of values, uncut."""
    if not isinstance(old, AtomicType):
        return casts_to_text.nested_text(column, old, _as_text)
    if old.root in _BYTES:
        return casts_to_text.utf8(column)
    return casts_to_text.text_of(column, old)


def _fit_text(column: pa.Array, new: AtomicType, old: AtomicType) -> pa.Array:
    length = new.length or 0
    if length == MAX_LENGTH or old.root in _BYTES:
        return column
    cut = pc.utf8_slice_codeunits(column, 0, length)
    return pc.utf8_rpad(cut, length) if new.root == "CHAR" else cut


def _fit_bytes(column: pa.Array, new: AtomicType) -> pa.Array:
    length = new.length or 0
    if length == MAX_LENGTH:
        return column
    cut = pc.binary_slice(column, 0, length)
    if new.root == "VARBINARY":
        return cut
    return casts_from_text.by_value(cut, lambda value: value.ljust(length, b"\0"), pa.binary())


def _parsed(column: pa.Array, new: AtomicType) -> pa.Array:
    if new.root in _WHOLE:
        return casts_from_text.whole_numbers(column, arrow_type(new))
    parse = casts_from_text.parser(new)
    wanted = arrow_type(new)
    if new.root in ("DATE", "TIME", *_STAMPS):
        stored = pa.int64() if new.root in _STAMPS else pa.int32()
        return casts_from_text.by_value(column, parse, stored).cast(wanted)
    return casts_from_text.by_value(column, parse, wanted)


def _from_stamp(column: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    ticks = column.view(pa.int64())
    per_milli = _PER_MILLI[time_unit(old)]
    if new.root in _STAMPS:
        return _restamped(ticks, old, new)
    millis = _floor_divided(ticks, per_milli)
    if new.root == "DATE":
        return _floor_divided(millis, _DAY_MS).cast(pa.int32()).cast(pa.date32())
    if new.root == "TIME":
        of_day = pc.subtract(millis, pc.multiply(_floor_divided(millis, _DAY_MS), _DAY_MS))
        return of_day.cast(pa.int32()).cast(pa.time32("ms"))
    # towards zero, as in Java
    return _wrapped(pc.divide(millis, 1000), new)


def _restamped(ticks: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    digits = new.precision or 0
    from_milli, to_milli = _PER_MILLI[time_unit(old)], _PER_MILLI[time_unit(new)]
    millis = _floor_divided(ticks, from_milli)
    above = pc.subtract(ticks, pc.multiply(millis, from_milli))
    if digits < (old.precision or 0):
        if digits <= 3:
            step = 10 ** (3 - digits)
            # a value that loses no digit is left alone; others go towards zero
            exact = pc.and_(pc.equal(above, 0), pc.equal(pc.multiply(pc.divide(millis, step), step), millis))
            cut = pc.multiply(pc.divide(millis, step), step)
            millis, above = pc.if_else(exact, millis, cut), pc.multiply(above, 0)
        else:
            step = 10 ** (9 - digits) * from_milli // 1_000_000 or 1
            above = pc.multiply(pc.divide(above, step), step)
    scaled = (
        pc.multiply(above, to_milli // from_milli)
        if to_milli >= from_milli
        else pc.divide(above, from_milli // to_milli)
    )
    return _stamp(pc.add_checked(pc.multiply_checked(millis, to_milli), scaled), new)


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


def _floor_divided(numbers: pa.Array, divisor: int) -> pa.Array:
    if divisor == 1:
        return numbers
    return _with_nulls(np.floor_divide(_filled(numbers), divisor), numbers)
