"""One VARIANT value: the bytes of its value and its metadata ⇄ JSON text and Python objects.

The layout is that of Parquet's specification "Variant Binary Encoding", version 1, as Spark and Apache Paimon write it:
a number without an exponent is an integer of 1 to 8 bytes, or a decimal of at most 38 digits; any other is a double.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import numpy as np

from lakelog.errors import Corrupt, InvalidRequest

_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
(
    _NULL, _TRUE, _FALSE, _INT1, _INT2, _INT4, _INT8, _DOUBLE, _DECIMAL4, _DECIMAL8, _DECIMAL16, _DATE, _INSTANT,
    _WALL_CLOCK, _FLOAT, _BINARY, _TEXT, _TIME, _INSTANT_NANOS, _WALL_CLOCK_NANOS, _UUID,
) = range(21)  # fmt: skip
_WIDTHS: Final = {_INT1: 1, _INT2: 2, _INT4: 4, _INT8: 8}
_DECIMALS: Final = {_DECIMAL4: (4, 9), _DECIMAL8: (8, 18), _DECIMAL16: (16, 38)}
"""Bytes and digits of each kind of decimal."""
_MOST_DIGITS: Final = 38
_LONGEST_SHORT: Final = 63
_VERSION: Final = 1
_MOST_BYTES: Final = 128 << 20
"""Maximum size of a value and of its metadata; Spark's own limit."""
_EPOCH: Final = datetime(1970, 1, 1)


_MOST_LEVELS: Final = 400
"""Maximum nesting of JSON text: a parser with Python's usual limit of 1000 nested calls reads it."""
_TOO_DEEP: Final = f"it has more than {_MOST_LEVELS} levels of objects and arrays"
T = TypeVar("T")


class _Scalar(NamedTuple):
    """A value that is neither an object nor an array: its kind, and the number, text or bytes in it."""

    kind: int
    value: Any
    scale: int = 0


_Part: TypeAlias = _Scalar | dict[str, int] | list[int]
"""A scalar, the places of an object's fields by their names, or the places of an array's elements."""


def to_json(value: bytes, metadata: bytes, exact: bool = False) -> str:
    """The JSON text of a value, with the fields of its objects in the order of their bytes.

    Dates, times, bytes and UUIDs are text, as Spark's ``to_json`` writes them in UTC. ``exact`` writes doubles with an
    exponent, so that ``from_json`` makes doubles of them again: the log's form. Raises Corrupt, and InvalidRequest for
    an exact text of more levels than ``from_json`` reads.
    """

    def text_of(part: _Part, texts: Mapping[int, str]) -> str:
        if isinstance(part, _Scalar):
            return _scalar_json(part, exact)
        if isinstance(part, dict):
            by_place = sorted(part.items(), key=lambda field: field[1])
            return "{" + ",".join(f"{_quoted(name)}:{texts[place]}" for name, place in by_place) + "}"
        return "[" + ",".join(texts[place] for place in part) + "]"

    return _built(value, metadata, text_of, _MOST_LEVELS if exact else None)


def to_python(value: bytes, metadata: bytes) -> Any:
    """The value as dicts, lists and scalars of Python; a decimal is a Decimal, an instant a datetime in UTC.

    A date or a time that Python does not have, and a timestamp with nanoseconds, is text. Raises Corrupt.
    """

    def object_of(part: _Part, objects: Mapping[int, Any]) -> Any:
        if isinstance(part, _Scalar):
            return _scalar_object(part)
        if isinstance(part, dict):
            return {name: objects[place] for name, place in part.items()}
        return [objects[place] for place in part]

    return _built(value, metadata, object_of)


def from_json(text: str) -> tuple[bytes, bytes]:
    """The bytes of the value and of the metadata of JSON text.

    Raises InvalidRequest for text that is not JSON, for an object that has a name twice, and for more levels of objects
    and arrays than ``_MOST_LEVELS``.
    """
    try:
        try:
            body, metadata = _encoded(text)
        except RecursionError:
            # the caller has used up most of Python's calls; a thread begins with all of them
            with ThreadPoolExecutor(1) as thread:
                body, metadata = thread.submit(_encoded, text).result()
    except RecursionError:
        raise InvalidRequest(f"{text[:100]!r} is not JSON for a VARIANT: {_TOO_DEEP}") from None
    except ValueError as why:
        raise InvalidRequest(f"{text[:100]!r} is not JSON for a VARIANT: {why}") from None
    if max(len(body), len(metadata)) > _MOST_BYTES:
        raise InvalidRequest(
            f"JSON of {len(text)} characters is too large for a VARIANT of at most {_MOST_BYTES} bytes"
        )
    return body, metadata


def _encoded(text: str) -> tuple[bytes, bytes]:
    parsed = json.loads(text, object_pairs_hook=_fields, parse_float=_number, parse_int=_number, parse_constant=_no)
    writer = _Writer()
    body = writer.bytes_of(parsed)
    return body, writer.metadata()


def _built(
    value: bytes, metadata: bytes, build: Callable[[_Part, dict[int, Any]], T], most_levels: int | None = None
) -> T:
    """What ``build`` makes of the value, from its last part to its first: calls are not nested as the value is."""
    reader = _Reader(value, metadata)
    parts: dict[int, _Part] = {}
    level, places = 0, [0]
    try:
        while places:
            new = {place: reader.part(place) for place in places if place not in parts}
            parts |= new
            places = [
                inner
                for part in new.values()
                if not isinstance(part, _Scalar)
                for inner in (part.values() if isinstance(part, dict) else part)
            ]
            level += any(not isinstance(part, _Scalar) for part in new.values())
            if most_levels is not None and level > most_levels:
                raise InvalidRequest(f"a VARIANT has no exact JSON text: {_TOO_DEEP}")
        built: dict[int, T] = {}
        # the parts of a part come after it
        for place in sorted(parts, reverse=True):
            built[place] = build(parts[place], built)
        return built[0]
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError) as why:
        raise Corrupt(f"malformed VARIANT: {why!r}") from None


class _Reader:
    """The parts of a value by their places in its bytes."""

    def __init__(self, value: bytes, metadata: bytes) -> None:
        self._value = value
        if not value or not metadata or metadata[0] & 0x0F != _VERSION:
            raise Corrupt(f"malformed VARIANT: its metadata begin with {metadata[:1]!r}, not with version {_VERSION}")
        width = (metadata[0] >> 6) + 1
        count = _unsigned(metadata, 1, width)
        first = 1 + width * (count + 2)
        if first > len(metadata):
            raise Corrupt("malformed VARIANT: its metadata are too short")
        ends = [first + _unsigned(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
        if any(end > len(metadata) for end in ends):
            raise Corrupt("malformed VARIANT: its metadata are too short")
        try:
            self._names = [metadata[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
        except UnicodeDecodeError as why:
            raise Corrupt(f"malformed VARIANT: a name is not UTF-8: {why}") from None

    def part(self, at: int) -> _Part:
        """The part at a place: a scalar, the places of an object's fields, or those of an array's elements."""
        head = self._value[at]
        basic, info = head & 3, head >> 2
        if basic == _PRIMITIVE:
            return self._scalar(info, at + 1)
        if basic == _SHORT_TEXT:
            return _Scalar(_TEXT, self._slice(at + 1, info).decode())
        width = (info & 3) + 1
        is_large = bool(info & (16 if basic == _OBJECT else 4))
        size = 4 if is_large else 1
        count = _unsigned(self._value, at + 1, size)
        start = at + 1 + size
        names: list[str] = []
        if basic == _OBJECT:
            wide = (info >> 2 & 3) + 1
            names = [self._names[_unsigned(self._value, start + i * wide, wide)] for i in range(count)]
            start += count * wide
        first = start + (count + 1) * width
        *places, end = (first + _unsigned(self._value, start + i * width, width) for i in range(count + 1))
        if end > len(self._value) or any(place >= end for place in places):
            raise IndexError("a part is outside of the value")
        return dict(zip(names, places, strict=True)) if basic == _OBJECT else places

    def _scalar(self, kind: int, at: int) -> _Scalar:
        if kind in (_NULL, _TRUE, _FALSE):
            return _Scalar(kind, {_NULL: None, _TRUE: True, _FALSE: False}[kind])
        if kind in _WIDTHS:
            return _Scalar(_INT8, self._signed(at, _WIDTHS[kind]))
        if kind in _DECIMALS:
            return _Scalar(_DECIMAL16, self._signed(at + 1, _DECIMALS[kind][0]), self._slice(at, 1)[0])
        if kind in (_DOUBLE, _FLOAT):
            size, form = (8, "<d") if kind == _DOUBLE else (4, "<f")
            return _Scalar(kind, struct.unpack(form, self._slice(at, size))[0])
        if kind == _DATE:
            return _Scalar(kind, self._signed(at, 4))
        if kind in (_INSTANT, _WALL_CLOCK, _TIME, _INSTANT_NANOS, _WALL_CLOCK_NANOS):
            return _Scalar(kind, self._signed(at, 8))
        if kind in (_TEXT, _BINARY):
            data = self._slice(at + 4, _unsigned(self._value, at, 4))
            return _Scalar(kind, data.decode() if kind == _TEXT else data)
        if kind == _UUID:
            return _Scalar(kind, self._slice(at, 16))
        raise Corrupt(f"malformed VARIANT: it has a value of the unknown type {kind}")

    def _slice(self, at: int, size: int) -> bytes:
        if at + size > len(self._value):
            raise IndexError("a part ends outside of the value")
        return self._value[at : at + size]

    def _signed(self, at: int, size: int) -> int:
        return int.from_bytes(self._slice(at, size), "little", signed=True)


def _unsigned(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise Corrupt("malformed VARIANT: it is too short")
    return int.from_bytes(data[at : at + size], "little")


def _scalar_json(found: _Scalar, exact: bool) -> str:
    kind, value = found.kind, found.value
    if kind in (_NULL, _TRUE, _FALSE):
        return {_NULL: "null", _TRUE: "true", _FALSE: "false"}[kind]
    if kind == _INT8:
        return str(value)
    if kind == _DECIMAL16:
        return _decimal_text(value, found.scale)
    if kind in (_DOUBLE, _FLOAT):
        if not math.isfinite(value):
            return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
        text = repr(value) if kind == _DOUBLE else str(np.float32(value))
        return f"{text}e0" if exact and "e" not in text else text
    if kind == _TEXT:
        return _quoted(value)
    if kind == _BINARY:
        return f'"{base64.b64encode(value).decode()}"'
    if kind == _UUID:
        return f'"{UUID(bytes=value)}"'
    return f'"{_time_text(kind, value)}"'


def _decimal_text(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _time_text(kind: int, value: int) -> str:
    if kind == _DATE:
        return str(np.datetime64(value, "D"))
    if kind == _TIME:
        return str(np.datetime64(value, "us")).partition("T")[2]
    has_nanos = kind in (_INSTANT_NANOS, _WALL_CLOCK_NANOS)
    text = str(np.datetime64(value, "ns") if has_nanos else np.datetime64(value, "us")).replace("T", " ")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text}+00:00" if kind in (_INSTANT, _INSTANT_NANOS) else text


def _scalar_object(found: _Scalar) -> Any:
    kind, value = found.kind, found.value
    if kind == _DECIMAL16:
        return Decimal(_decimal_text(value, found.scale))
    if kind == _UUID:
        return UUID(bytes=value)
    try:
        if kind == _DATE:
            return date(1970, 1, 1) + timedelta(days=value)
        if kind in (_INSTANT, _WALL_CLOCK, _TIME):
            moment = _EPOCH + timedelta(microseconds=value)
            is_time = time(moment.hour, moment.minute, moment.second, moment.microsecond) if kind == _TIME else None
            return is_time or (moment.replace(tzinfo=UTC) if kind == _INSTANT else moment)
    except OverflowError:
        return _time_text(kind, value)
    return _time_text(kind, value) if kind in (_INSTANT_NANOS, _WALL_CLOCK_NANOS) else value


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("an object has a name twice")
    return fields


def _number(text: str) -> int | Decimal | float:
    """A number without an exponent as an integer or a decimal, if it has at most 38 digits; any other as a double."""
    if len(text) > 2 * _MOST_DIGITS or "e" in text or "E" in text:
        return float(text)
    if "." not in text and -(2**63) <= int(text) < 2**63:
        return int(text)
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    return number if len(digits) <= _MOST_DIGITS and -int(exponent) <= _MOST_DIGITS else float(text)


def _no(text: str) -> None:
    raise ValueError(f"{text} is not a value of JSON")


class _Writer:
    """Encodes a value, and collects the names of its fields in the order of their first occurrence."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def metadata(self) -> bytes:
        names = [name.encode() for name in self._names]
        ends = [0]
        for name in names:
            ends.append(ends[-1] + len(name))
        width = _width(max(ends[-1], len(names)))
        numbers = b"".join(number.to_bytes(width, "little") for number in (len(names), *ends))
        return bytes([_VERSION | (width - 1) << 6]) + numbers + b"".join(names)

    def bytes_of(self, value: Any, level: int = 1) -> bytes:
        if isinstance(value, dict | list) and level > _MOST_LEVELS:
            raise ValueError(_TOO_DEEP)
        if isinstance(value, dict):
            return self._object(value, level + 1)
        if isinstance(value, list):
            parts = [self.bytes_of(part, level + 1) for part in value]
            width = _width(sum(map(len, parts)))
            head = bytes([((len(parts) > 255) << 2 | width - 1) << 2 | _ARRAY])
            return b"".join([head, _count(len(parts)), *_offsets(parts, width), *parts])
        return b"".join(_scalar_bytes(value))

    def _object(self, value: dict[str, Any], level: int) -> bytes:
        numbers, parts = {}, []
        for name, part in value.items():
            numbers[name] = self._names.setdefault(name, len(self._names))
            parts.append(self.bytes_of(part, level))
        *starts, end = np.cumsum([0, *map(len, parts)]).tolist()
        by_name = dict(zip(value, starts, strict=True))
        # readers compare names as Java compares strings
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        width, wide = _width(end), _width(max(numbers.values(), default=0))
        head = bytes([((len(parts) > 255) << 4 | (wide - 1) << 2 | width - 1) << 2 | _OBJECT])
        ids = (numbers[name].to_bytes(wide, "little") for name in names)
        places = (place.to_bytes(width, "little") for place in (*(by_name[name] for name in names), end))
        return b"".join([head, _count(len(parts)), *ids, *places, *parts])


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _count(count: int) -> bytes:
    return count.to_bytes(4 if count > 255 else 1, "little")


def _offsets(parts: list[bytes], width: int) -> Iterator[bytes]:
    for place in np.cumsum([0, *map(len, parts)]).tolist():
        yield place.to_bytes(width, "little")


def _scalar_bytes(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool):
        yield _head(_NULL if value is None else _TRUE if value else _FALSE)
    elif isinstance(value, str):
        text = value.encode()
        if len(text) > _LONGEST_SHORT:
            yield _head(_TEXT) + len(text).to_bytes(4, "little")
        else:
            yield bytes([len(text) << 2 | _SHORT_TEXT])
        yield text
    elif isinstance(value, int):
        kind = next(k for k, size in _WIDTHS.items() if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1)
        yield _head(kind) + value.to_bytes(_WIDTHS[kind], "little", signed=True)
    elif isinstance(value, float):
        yield _head(_DOUBLE) + struct.pack("<d", value)
    else:
        is_negative, digits, exponent = value.as_tuple()
        unscaled, scale = int("".join(map(str, digits))), -exponent
        kind = next(k for k, (_, most) in _DECIMALS.items() if max(len(digits), scale) <= most)
        number = (-unscaled if is_negative else unscaled).to_bytes(_DECIMALS[kind][0], "little", signed=True)
        yield _head(kind) + bytes([scale]) + number


def _head(kind: int) -> bytes:
    return bytes([kind << 2 | _PRIMITIVE])
