"""Rows as Avro messages of ``rows.message_schema``: the bytes of each column, and then those of each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.fileformat.avro_rows import avro_records
from lakelog.fileformat.messages.columns import Messages
from lakelog.fileformat.messages.rows import message_schema
from lakelog.fileformat.messages.schemas import resolved

_NULL = pa.scalar(b"\0", pa.large_binary())
_VALUE = pa.scalar(b"\2", pa.large_binary())
_EMPTY = pa.scalar(b"", pa.large_binary())
_DECIMAL_BYTES = 16


def encoded_rows(rows: pa.RecordBatch) -> pa.LargeBinaryArray:
    """One message for each row. Rows with lists, maps, structs or VARIANT are encoded one by one."""
    if any(pa.types.is_nested(field.type) for field in rows.schema) or not rows.num_columns:
        messages = Messages(resolved(message_schema(rows.schema, "Value"))).messages(avro_records(rows))
        return pa.array(messages, pa.large_binary())
    return pc.binary_join_element_wise(*map(_nullable, rows.columns), _EMPTY)


def joined(*parts: pa.LargeBinaryArray | pa.Scalar) -> pa.LargeBinaryArray:
    """The bytes of parts one after another, row by row."""
    return pc.binary_join_element_wise(*parts, _EMPTY)


def _nullable(column: pa.Array) -> pa.LargeBinaryArray:
    """A column of ``["null", type]``."""
    if not column.null_count:
        return joined(_VALUE, _values(column))
    valid = column.is_valid()
    places = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
    return pc.fill_null(joined(_VALUE, _values(column.drop_null())).take(places), _NULL)


def _values(column: pa.Array) -> pa.LargeBinaryArray:
    """A column without NULLs."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return _fixed(column.cast(pa.uint8()).to_numpy(), 1)
    if pa.types.is_floating(kind):
        return _fixed(np.ascontiguousarray(column.to_numpy(), f"<f{kind.bit_width // 8}"), kind.bit_width // 8)
    if pa.types.is_decimal(kind):
        data = _unscaled(column)
    elif pa.types.is_integer(kind):
        return _varints(column.cast(pa.int64()).to_numpy())
    elif pa.types.is_temporal(kind):
        return _varints(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64()).to_numpy())
    else:
        data = column.cast(pa.binary()).cast(pa.large_binary())
    return joined(_varints(pc.binary_length(data).to_numpy()), data)


def _fixed(values: np.ndarray, width: int) -> pa.LargeBinaryArray:
    return _binary(np.full(len(values), width), values.tobytes())


def _varints(numbers: np.ndarray) -> pa.LargeBinaryArray:
    """Numbers (int64) as Avro's zigzag varints."""
    numbers = numbers.astype(np.int64)
    zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    lengths = np.ones(len(numbers), np.int64)
    for group in range(1, 10):
        lengths += zigzag >= np.uint64(1 << 7 * group)
    starts = np.cumsum(lengths) - lengths
    data = np.zeros(int(lengths.sum()), np.uint8)
    for group in range(int(lengths.max(initial=0))):
        places = np.flatnonzero(lengths > group)
        low = (zigzag[places] >> np.uint64(7 * group)).astype(np.uint8) & 0x7F
        data[starts[places] + group] = low | np.where(lengths[places] > group + 1, 0x80, 0).astype(np.uint8)
    return _binary(lengths, data.tobytes())


def _unscaled(column: pa.Array) -> pa.LargeBinaryArray:
    """The digits of decimals as the shortest big-endian two's complement."""
    column = column.cast(pa.decimal128(38, column.type.scale))
    data = np.frombuffer(column.buffers()[1], np.uint8)[_DECIMAL_BYTES * column.offset :]
    digits = data[: _DECIMAL_BYTES * len(column)].reshape(-1, _DECIMAL_BYTES)[:, ::-1]
    sign = digits[:, 0] >> 7
    is_sign = np.cumprod(digits == (sign * 255)[:, None], axis=1).sum(axis=1)
    first = np.minimum(is_sign, _DECIMAL_BYTES - 1)
    first -= (is_sign > 0) & (digits[np.arange(len(digits)), first] >> 7 != sign)
    return _binary(_DECIMAL_BYTES - first, digits[np.arange(_DECIMAL_BYTES) >= first[:, None]].tobytes())


def _binary(lengths: np.ndarray, data: bytes) -> pa.LargeBinaryArray:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(data)])
