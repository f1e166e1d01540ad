"""Zigzag varints, the numbers of Kafka's records and of Avro: one at a time, and as columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

_TABLE_SIZE: Final = 1 << 16
_LIMITS: Final = np.array([1 << 7 * size for size in range(1, 9)], np.int64)


def encode_varint(number: int) -> bytes:
    """The bytes of a number of up to 64 bits."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number of at most 64 bits at a position, and the position after it. Raises IndexError, ValueError."""
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    rest = shift = 0
    while True:
        byte = data[at]
        at += 1
        rest |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise ValueError("a number has more than 64 bits")
        if byte < 128:
            return (rest >> 1) ^ -(rest & 1), at


def varint_sizes(numbers: np.ndarray) -> np.ndarray:
    """The number of bytes of each number (int64), in its shortest form."""
    sizes: np.ndarray = np.searchsorted(_LIMITS, (numbers << 1) ^ (numbers >> 63), side="right") + 1
    return sizes


_TABLE: Final = pa.array([encode_varint(number) for number in range(-1, _TABLE_SIZE)], pa.large_binary())


def varint_column(numbers: np.ndarray) -> pa.LargeBinaryArray:
    """The bytes of each number, -1 or larger."""
    if len(numbers) and numbers.max() >= _TABLE_SIZE:
        return pa.array([encode_varint(number) for number in numbers.tolist()], pa.large_binary())
    return _TABLE.take(pa.array(numbers + 1))
