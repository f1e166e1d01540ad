"""Text as numbers, dates and times: the texts of Apache Paimon's casts, except those that it would cut or bend."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.types.types import AtomicType

_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_WHOLE: Final = r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]*)(?:\.0*)?$"
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FLOAT = re.compile(r"([+-]?)(NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_STAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?"
    r"|T(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?",
    re.ASCII,
)
_EXACT: Final = Context(prec=400, traps=[])
_DAY_MS: Final = 86_400_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)
_UNIT_DIGITS: Final = (3, 6, 9)
_SHIFTS: Final = {0: 1000, 3: 1, 6: 1, 9: 1}


def by_value(column: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Converts each distinct value once; NULL stays NULL. Raises what ``convert`` raises."""
    coded = column.dictionary_encode()
    values = pa.array([None if v is None else convert(v) for v in coded.dictionary.to_pylist()], kind)
    return values.take(coded.indices)


def whole_numbers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as whole numbers; digits after the decimal point must be zeros. Raises ValueError."""
    parts = pc.extract_regex(column, _WHOLE)
    sign, digits = pc.struct_field(parts, 0), pc.struct_field(parts, 1)
    bare = pc.or_(pc.equal(column, ""), pc.is_in(column, pa.array(["+", "-", ".", "+.", "-."])))
    bad = pc.and_(column.is_valid(), pc.or_kleene(parts.is_null(), bare))
    _refuse(column, bad)
    text = pc.if_else(pc.equal(digits, ""), "0", digits)
    _refuse(column, pc.greater(pc.binary_length(text), 19))
    wide = pc.binary_join_element_wise(pc.if_else(pc.equal(sign, "-"), "-", ""), text, "")
    return wide.cast(pa.int64()).cast(kind)


def _refuse(column: pa.Array, bad: pa.Array) -> None:
    if pc.any(bad).as_py():
        raise ValueError(f"{column.filter(bad)[0].as_py()!r} is not a number of this type")


def parser(kind: AtomicType) -> Callable[[str], Any]:
    """The parser of one text for an atomic type other than an integer.

    Dates and times come as whole numbers: days, milliseconds of the day, or ticks of the timestamp's unit. It raises
    ValueError for any other text.
    """
    if kind.root == "BOOLEAN":
        return _boolean
    if kind.root == "DECIMAL":
        return lambda text: _decimal(text, kind)
    if kind.root in ("FLOAT", "DOUBLE"):
        return _float32 if kind.root == "FLOAT" else _float64
    if kind.root == "DATE":
        return _date
    if kind.root == "TIME":
        return _time
    return lambda text: _stamp(text, kind)


def fit_decimal(value: Decimal, kind: AtomicType) -> Decimal:
    """The value with the scale of a type. Raises ValueError for one with more digits."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a decimal number")
    precision, scale = kind.precision or 0, kind.scale or 0
    if not value:
        return Decimal(0).scaleb(-scale)
    number = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT) if value.adjusted() < precision else None
    if number is None or number != value or len(number.as_tuple().digits) > precision:
        raise ValueError(f"{value} has more digits than DECIMAL({precision}, {scale})")
    return number


def _boolean(text: str) -> bool:
    lower = text.lower()
    if lower in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _decimal(text: str, kind: AtomicType) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a decimal number")
    return fit_decimal(Decimal(text), kind)


def _float64(text: str) -> float:
    match = _FLOAT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a floating-point number")
    return _in_range(float(match[1] + match[2]), match[2])


def _in_range(value: float, digits: str) -> float:
    """The value of digits, unless they are too large for it or become zero. Raises ValueError."""
    is_zero = not re.search("[1-9]", re.split("[eE]", digits)[0])
    if digits[0] not in "NI" and (np.isinf(value) or (value == 0) != is_zero):
        raise ValueError(f"{digits} is outside the range of this type")
    return value


def _float32(text: str) -> float:
    value = _float64(text)
    if not np.isfinite(value):
        return value
    # the nearest float of the text, not of the nearest double
    match = _FLOAT.fullmatch(text.strip())
    digits = match[2] if match else ""
    near = _in_range(float(pa.scalar(digits).cast(pa.float32()).as_py()), digits)
    return -near if text.strip().startswith("-") else near


def _date(text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    head, _, rest = text.partition(" ") if text.find(" ") > 0 else (text, "", "")
    if re.search("[^0:. ]", rest):
        raise ValueError(f"{text!r} is no date, but a time of a day")
    parts = [part.strip() for part in head.split("-", 2)]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text!r} is not a date")
    year, month, day = (*map(int, parts), 1, 1)[:3]
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"{text!r} is not a date") from None


def _time(text: str) -> int:
    """Milliseconds of ``h[:m[:s[.fraction]]]``, with an offset that is added (+) or taken away (-)."""
    if _NUMBER.fullmatch(text):
        return _of_day(int(text), text)
    match = re.fullmatch(
        r"\s*(\d+)\s*(?::\s*(\d+)\s*(?::\s*(\d+)\s*(?:\.(\d*)\s*)?)?)?(?:([+-])\s*(\d+)\s*(?::\s*(\d+)\s*)?)?",
        text,
        re.ASCII,
    )
    if match is None:
        raise ValueError(f"{text!r} is no time")
    hour, minute, second = (int(match[i] or 0) for i in (1, 2, 3))
    fraction = match[4] or ""
    milli = int(fraction[:3].ljust(3, "0"))
    if fraction[3:].strip("0"):
        raise ValueError(f"{text!r} is finer than a millisecond")
    sign = -1 if match[5] == "-" else 1
    hour += sign * int(match[6] or 0)
    minute += sign * int(match[7] or 0)
    return _of_day(((hour * 60 + minute) * 60 + second) * 1000 + milli, text)


def _of_day(millis: int, text: str) -> int:
    if not 0 <= millis < _DAY_MS:
        raise ValueError(f"{text!r} is not a time of day")
    return millis


def _stamp(text: str, kind: AtomicType) -> int:
    digits = kind.precision or 0
    unit = next(d for d in _UNIT_DIGITS if digits <= d)
    if _NUMBER.fullmatch(text) and kind.root == "TIMESTAMP":
        if digits not in _SHIFTS:
            raise ValueError(f"{text!r} is a number, which cannot be converted to TIMESTAMP({digits})")
        return int(text) * _SHIFTS[digits]
    match = _STAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    year, month, day = (int(match[i]) for i in (1, 2, 3))
    hour, minute, second = (int(match[i] or match[i + 4] or 0) for i in (4, 5, 6))
    zone = match[7] or match[11] or ""
    if zone[digits:].strip("0"):
        raise ValueError(f"{text!r} is finer than TIMESTAMP({digits})")
    fraction = zone.ljust(9, "0")[:digits].ljust(unit, "0")
    seconds = (datetime(year, month, day, hour, minute, second) - _EPOCH) // timedelta(seconds=1)
    return int(seconds * 10**unit + int(fraction))
