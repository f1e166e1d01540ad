"""BinaryRow: the bytes of one row of values in metadata files, keys and partitions (format sheet 5).

Serialised: 4 bytes arity (big-endian), then the body (little-endian): a head with row kind and null bits, 8 bytes per
field, then what does not fit into 8 bytes, each padded to 8.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from lakelog.errors import Corrupt, InternalError, UnsupportedFeature
from lakelog.paimon.types.arrow import time_unit
from lakelog.paimon.types.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType

_FIXED: Final = {
    "BOOLEAN": struct.Struct("<?7x"),
    "TINYINT": struct.Struct("<b7x"),
    "SMALLINT": struct.Struct("<h6x"),
    "INT": struct.Struct("<i4x"),
    "DATE": struct.Struct("<i4x"),
    "TIME": struct.Struct("<i4x"),
    "BIGINT": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f4x"),
    "DOUBLE": struct.Struct("<d"),
}
_ELEMENTS: Final = {
    "BOOLEAN": struct.Struct("<?"),
    "TINYINT": struct.Struct("<b"),
    "SMALLINT": struct.Struct("<h"),
    "INT": struct.Struct("<i"),
    "DATE": struct.Struct("<i"),
    "TIME": struct.Struct("<i"),
    "FLOAT": struct.Struct("<f"),
}
"""Types that take less than 8 bytes in an array."""
_COUNT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_POINTER: Final = struct.Struct("<II")
_ARITY: Final = struct.Struct(">i")

_ONE_NUMBER: Final = np.dtype([("arity", ">i4"), ("head", "<u8"), ("number", "<i8")])
"""A row of one whole number; its head is 0 unless the number is NULL."""

_TEXT: Final = ("CHAR", "VARCHAR")
_BYTES: Final = ("BINARY", "VARBINARY")
_STAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")

COMPACT_DECIMAL: Final = 18
"""Maximum precision of decimals that are stored in their 8 bytes."""
COMPACT_TIMESTAMP: Final = 3

_EXACT: Final = Context(prec=76)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_PER_SECOND: Final = {"ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def head_size(arity: int) -> int:
    """Bytes of row kind and null bits before the first field."""
    return (arity + 63 + 8) // 64 * 8


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """A row as serialised bytes, arity first.

    Values are Python's own (int, str, bytes, Decimal, date, time, datetime …) or None. DATE, TIME and timestamps also
    take a whole number: days, milliseconds, or the unit of their Arrow type. Raises UnsupportedFeature for a nested
    type with a value.
    """
    arity = len(types)
    if len(values) != arity:
        raise InternalError(f"{len(values)} values for a row of {arity} columns")
    head = bytearray(head_size(arity))
    slots: list[bytes] = []
    rest: list[bytes] = []
    position = len(head) + 8 * arity
    for i, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            head[(i + 8) // 8] |= 1 << (i % 8)
        slot, more = _encode(value, kind, position)
        slots.append(slot)
        rest.append(more)
        position += len(more)
    return b"".join((_ARITY.pack(arity), head, *slots, *rest))


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """The values of serialised bytes, as ``encode_row`` takes them (timestamps finer than microseconds as
    ``numpy.datetime64``, those with a zone in UTC; a ROW as a tuple, an ARRAY as a list, a MAP or MULTISET as a list of
    pairs). Raises Corrupt when bytes and types do not fit.
    """
    try:
        (arity,) = _ARITY.unpack_from(data)
        if arity != len(types):
            raise Corrupt(f"a row of {arity} columns where {len(types)} were expected")
        return _decode_fields(memoryview(data)[4:], types)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError) as why:
        raise Corrupt(f"{len(data)} bytes are not a row of {len(types)} columns: {why}") from None


def decode_rows(rows: Sequence[bytes], types: Sequence[DataType]) -> list[tuple[Any, ...]]:
    """As ``decode_row`` of each; those of one whole number at once."""
    root = getattr(types[0], "root", None) if len(types) == 1 else None
    if root not in ("INT", "BIGINT") or {len(row) for row in rows} != {_ONE_NUMBER.itemsize}:
        return [decode_row(row, types) for row in rows]
    parts = np.frombuffer(b"".join(rows), _ONE_NUMBER)
    if parts["head"].any() or (parts["arity"] != 1).any():
        return [decode_row(row, types) for row in rows]
    numbers = parts["number"] if root == "BIGINT" else parts["number"].astype(np.int32)
    return [(number,) for number in numbers.tolist()]


def arity_of(data: bytes) -> int:
    """Number of columns of serialised bytes."""
    if len(data) < 12:
        raise Corrupt(f"{len(data)} bytes are not a row")
    return int(_ARITY.unpack_from(data)[0])


def _encode(value: Any, kind: DataType, position: int) -> tuple[bytes, bytes]:
    """The 8 bytes of a field, and its variable part, which begins at ``position``."""
    if not isinstance(kind, AtomicType):
        if value is None:
            return bytes(8), b""
        raise UnsupportedFeature(f"a value of type {kind.to_json()} cannot be part of a key or of statistics")
    root = kind.root
    if root == "DECIMAL" and (kind.precision or 0) > COMPACT_DECIMAL:
        number = b"" if value is None else _big_endian(_unscaled(value, kind))
        return _POINTER.pack(len(number), position), number.ljust(16, b"\0")
    if root in _STAMPS and (kind.precision or 0) > COMPACT_TIMESTAMP:
        millis, nanos = (0, 0) if value is None else _millis_and_nanos(value, kind)
        return _POINTER.pack(nanos, position), _LONG.pack(millis)
    if value is None:
        return bytes(8), b""
    if root in _TEXT or root in _BYTES:
        return _encode_bytes(value.encode() if root in _TEXT else bytes(value), position)
    if root == "DECIMAL":
        return _LONG.pack(_unscaled(value, kind)), b""
    if root in _STAMPS:
        return _LONG.pack(_millis_and_nanos(value, kind)[0]), b""
    if root in _FIXED:
        return _FIXED[root].pack(_number(value)), b""
    raise UnsupportedFeature(f"a value of type {root} cannot be part of a key or of statistics")


def _decode(body: memoryview, at: int, kind: DataType) -> Any:
    if not isinstance(kind, AtomicType):
        return _decode_nested(body, at, kind)
    root, precision = kind.root, kind.precision or 0
    if root in _TEXT or root in _BYTES:
        data = _decode_bytes(body, at)
        return data.decode() if root in _TEXT else data
    if root == "DECIMAL":
        return _decode_decimal(body, at, precision, kind.scale or 0)
    if root in _STAMPS:
        nanos, millis = 0, 0
        if precision > COMPACT_TIMESTAMP:
            nanos, offset = _POINTER.unpack_from(body, at)
            (millis,) = _LONG.unpack_from(body, offset)
        else:
            (millis,) = _LONG.unpack_from(body, at)
        return _stamp(millis, nanos, kind)
    if root not in _FIXED:
        raise UnsupportedFeature(f"a value of type {root} in a key or in statistics cannot be read")
    return _of_number(_FIXED[root].unpack_from(body, at)[0], root)


def _of_number(number: Any, root: str) -> Any:
    if root == "DATE":
        return date.fromordinal(number + _EPOCH_DAY) if -719162 <= number <= 2932896 else number
    if root == "TIME":
        return (_EPOCH + timedelta(milliseconds=number)).time()
    return number


def _decode_fields(body: memoryview, types: Sequence[DataType]) -> tuple[Any, ...]:
    head = head_size(len(types))
    return tuple(
        None if body[(i + 8) // 8] >> (i % 8) & 1 else _decode(body, head + 8 * i, kind) for i, kind in enumerate(types)
    )


def _decode_nested(body: memoryview, at: int, kind: DataType) -> Any:
    length, offset = _POINTER.unpack_from(body, at)
    part = body[offset : offset + length]
    if len(part) < length:
        raise Corrupt(f"a value of {length} bytes at {offset} in a row of {len(body)} bytes")
    if isinstance(kind, RowType):
        return _decode_fields(part, [f.type for f in kind.fields])
    if isinstance(kind, ArrayType):
        return _decode_array(part, kind.element)
    if isinstance(kind, MapType | MultisetType):
        key, value = (kind.key, kind.value) if isinstance(kind, MapType) else (kind.element, AtomicType("INT", False))
        middle = _COUNT.size + _COUNT.unpack_from(part)[0]
        keys = _decode_array(part[_COUNT.size : middle], key)
        return list(zip(keys, _decode_array(part[middle:], value), strict=True))
    raise UnsupportedFeature(f"a value of type {kind.to_json()} in a key or in statistics cannot be read")


def _decode_array(body: memoryview, kind: DataType) -> list[Any]:
    """Count, null bits in steps of 4 bytes, then elements of equal width; offsets count from the start of the array."""
    (count,) = _COUNT.unpack_from(body)
    first = _COUNT.size + (count + 31) // 32 * 4
    narrow = _ELEMENTS.get(kind.root) if isinstance(kind, AtomicType) else None
    out: list[Any] = []
    for i in range(count):
        if body[_COUNT.size + i // 8] >> (i % 8) & 1:
            out.append(None)
        elif narrow is not None and isinstance(kind, AtomicType):
            out.append(_of_number(narrow.unpack_from(body, first + narrow.size * i)[0], kind.root))
        else:
            out.append(_decode(body, first + 8 * i, kind))
    return out


def _encode_bytes(data: bytes, position: int) -> tuple[bytes, bytes]:
    if len(data) <= 7:
        return data.ljust(7, b"\0") + bytes((0x80 | len(data),)), b""
    return _POINTER.pack(len(data), position), data + bytes(-len(data) % 8)


def _decode_bytes(body: memoryview, at: int) -> bytes:
    if body[at + 7] & 0x80:
        return bytes(body[at : at + (body[at + 7] & 0x7F)])
    length, offset = _POINTER.unpack_from(body, at)
    if offset + length > len(body):
        raise Corrupt(f"a value of {length} bytes at {offset} in a row of {len(body)} bytes")
    return bytes(body[offset : offset + length])


def _decode_decimal(body: memoryview, at: int, precision: int, scale: int) -> Decimal:
    if precision <= COMPACT_DECIMAL:
        (unscaled,) = _LONG.unpack_from(body, at)
    else:
        length, offset = _POINTER.unpack_from(body, at)
        unscaled = int.from_bytes(body[offset : offset + length], "big", signed=True)
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _number(value: Any) -> Any:
    if isinstance(value, date):
        return value.toordinal() - _EPOCH_DAY
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value


def _unscaled(value: Any, kind: AtomicType) -> int:
    return int(Decimal(value).scaleb(kind.scale or 0, _EXACT))


def _big_endian(number: int) -> bytes:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _millis_and_nanos(value: Any, kind: AtomicType) -> tuple[int, int]:
    """Epoch milliseconds (rounded down) and the nanoseconds above them."""
    if isinstance(value, datetime):
        is_instant = value.tzinfo is not None or kind.root == "TIMESTAMP_LTZ"  # without a zone: a local time
        naive = value.astimezone(UTC).replace(tzinfo=None) if is_instant else value
        ticks, per_second = (naive - _EPOCH) // timedelta(microseconds=1), 1_000_000
    elif isinstance(value, np.datetime64):
        ticks, per_second = int(value.astype("datetime64[ns]").astype(np.int64)), 1_000_000_000
    else:
        ticks, per_second = int(value), _PER_SECOND[time_unit(kind)]
    per_milli = per_second // 1000
    millis, above = divmod(ticks, per_milli)
    return millis, above * (1_000_000 // per_milli)


def _stamp(millis: int, nanos: int, kind: AtomicType) -> Any:
    if time_unit(kind) == "ns":
        return np.datetime64(millis * 1_000_000 + nanos, "ns")
    time = _EPOCH + timedelta(milliseconds=millis, microseconds=nanos // 1000)
    return time.replace(tzinfo=UTC) if kind.root == "TIMESTAMP_LTZ" else time
