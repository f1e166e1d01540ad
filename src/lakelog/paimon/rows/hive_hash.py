"""Buckets as Hive counts them: ``bucket-function.type`` = ``hive`` (format sheet 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import UnsupportedFeature

Numbers = npt.NDArray[np.int32]


def hive_buckets(columns: Sequence[pa.Array], buckets: int) -> Numbers:
    """The bucket (int32) of each row of bucket key columns. Raises UnsupportedFeature for times and nested types."""
    total = np.zeros(len(columns[0]), dtype=np.int32)
    with np.errstate(over="ignore"):
        for column in columns:
            total = np.int32(31) * total + _hashes(column)
    return ((total & np.int32(0x7FFFFFFF)) % np.int32(buckets)).astype(np.int32)


def _hashes(column: pa.Array) -> Numbers:
    """The hash of each value; 0 for NULL."""
    kind = column.type
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        found = column.fill_null(False).cast(pa.int8()).to_numpy().astype(np.int32)
    elif pa.types.is_date32(kind):
        found = column.view(pa.int32()).fill_null(0).to_numpy()
    elif pa.types.is_int64(kind):
        found = _folded(column.fill_null(0).to_numpy())
    elif pa.types.is_integer(kind):
        found = column.fill_null(0).to_numpy().astype(np.int32)
    elif pa.types.is_floating(kind):
        found = _of_floats(column.fill_null(0).to_numpy())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = _of_bytes(column.cast(pa.binary()).fill_null(b""))
    elif pa.types.is_decimal(kind):
        values = (0 if v is None else _of_decimal(v) for v in column.to_pylist())
        found = np.fromiter(values, dtype=np.int32, count=len(column))
    else:
        raise UnsupportedFeature(f"option 'bucket-function.type' = 'hive' takes no bucket key of type {kind}")
    return np.where(valid, found, np.int32(0)).astype(np.int32)


def _folded(numbers: npt.NDArray[np.int64]) -> Numbers:
    bits = numbers.view(np.uint64)
    return (bits ^ (bits >> np.uint64(32))).astype(np.uint32).view(np.int32)


def _of_floats(numbers: npt.NDArray[np.floating]) -> Numbers:
    """The bits of Java's one NaN, and of 0.0 for both zeros."""
    plain = np.where(numbers == 0, numbers.dtype.type(0), np.where(np.isnan(numbers), np.nan, numbers))
    plain = plain.astype(numbers.dtype)
    return plain.view(np.int32) if numbers.dtype == np.float32 else _folded(plain.view(np.int64))


def _of_bytes(column: pa.Array) -> Numbers:
    """``31 * hash + byte`` over the bytes, which are signed; position by position for all rows at once."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, dtype=np.int8) if buffer is not None else np.empty(0, dtype=np.int8)
    lengths = np.diff(offsets)
    out = np.zeros(len(column), dtype=np.int32)
    with np.errstate(over="ignore"):
        for at in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > at)
            out[rows] = out[rows] * np.int32(31) + data[offsets[rows] + at]
    return out


def _of_decimal(value: Decimal) -> int:
    """Java's ``BigDecimal.hashCode`` of the value without zeros at its end."""
    if value == 0:
        return 0
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    scale = -int(exponent)
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    words = 0
    for at in range((number.bit_length() + 31) // 32 - 1, -1, -1):
        words = (31 * words + (number >> (32 * at) & 0xFFFFFFFF)) & 0xFFFFFFFF
    hashed = (31 * (-words if sign else words) + scale) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed
