"""The Bloom filter of a column of a data file, with the bits of Apache Paimon's file index ``bloom-filter``."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.types.types import AtomicType, DataType

_TEXTS: Final = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_MOST_FUNCTIONS: Final = 1 << 10
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass
class BloomFilter:
    """``bits`` are packed, the first bit of a byte lowest; ``functions`` bits are set for each value."""

    functions: int
    bits: npt.NDArray[np.uint8]

    @staticmethod
    def sized(items: int, fpp: float) -> BloomFilter:
        """An empty filter for ``items`` distinct values with the false positive rate ``fpp``."""
        least = int(-items * math.log(fpp) / math.log(2) ** 2)
        bits = least + 8 - least % 8
        return BloomFilter(max(1, math.floor(bits / items * math.log(2) + 0.5)), np.zeros(bits // 8, np.uint8))

    @staticmethod
    def from_bytes(data: bytes) -> BloomFilter:
        """The reverse of ``to_bytes``. Raises Corrupt for bytes that are no filter."""
        functions = struct.unpack_from(">i", data)[0] if len(data) > 4 else 0
        if not 0 < functions <= _MOST_FUNCTIONS:
            raise Corrupt(f"{len(data)} bytes are not a Bloom filter")
        return BloomFilter(functions, np.frombuffer(data, np.uint8, offset=4))

    def to_bytes(self) -> bytes:
        """The number of functions, then the bits."""
        return struct.pack(">i", self.functions) + self.bits.tobytes()

    def add(self, hashes: Hashes) -> None:
        """Takes the hashes of values (``hash_values``)."""
        for position in self._positions(hashes):
            # only the bytes that are hit: a filter is larger than the rows of one call
            np.bitwise_or.at(self.bits, position >> 3, np.left_shift(np.uint8(1), (position & 7).astype(np.uint8)))

    def may_have_any(self, hashes: Hashes) -> bool:
        """False only if none of the values was added."""
        may_have = np.ones(len(hashes), dtype=np.bool_)
        for position in self._positions(hashes):
            may_have &= (self.bits[position >> 3] >> (position & 7).astype(np.uint8)) & 1 == 1
        return bool(may_have.any())

    def _positions(self, hashes: Hashes) -> list[npt.NDArray[np.int32]]:
        low = hashes.astype(np.uint32).view(np.int32)
        high = (hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)
        out = []
        for turn in range(1, self.functions + 1):
            both = low + np.int32(turn) * high
            out.append(np.where(both < 0, ~both, both) % np.int32(len(self.bits) * 8))
        return out


def hash_values(column: pa.Array, kind: DataType) -> Hashes:
    """The hashes of the values of a column; NULL has none. Raises UnsupportedFeature for a type without a hash."""
    root = kind.root if isinstance(kind, AtomicType) else ""
    values = column.drop_null()
    if root in _TEXTS:
        return hash_texts(values)
    if root in _WHOLE:
        narrow: Any = values.cast(pa.int32()) if root == "DATE" else values
        return hash_numbers(narrow.to_numpy().astype(np.int64))
    if root == "TIME":
        return hash_numbers(values.cast(pa.time32("ms")).view(pa.int32()).to_numpy().astype(np.int64))
    if root in _TIMESTAMPS:
        return hash_numbers(_ticks(values, isinstance(kind, AtomicType) and (kind.precision or 0) <= 3))
    if root in ("FLOAT", "DOUBLE"):
        numbers = values.to_numpy()
        # all NaN have one form
        same = np.where(np.isnan(numbers), numbers.dtype.type("nan"), numbers)
        return hash_numbers(same.view(np.int32 if root == "FLOAT" else np.int64).astype(np.int64))
    raise UnsupportedFeature(f"a column of type {kind.to_json()} cannot have a Bloom filter: leave it out of the index")


def _ticks(values: pa.Array, in_millis: bool) -> npt.NDArray[np.int64]:
    """Milliseconds or microseconds since 1970, finer digits cut."""
    numbers: npt.NDArray[np.int64] = values.view(pa.int64()).to_numpy()
    have, want = _NANOS[values.type.unit], 10**6 if in_millis else 10**3
    return numbers * (have // want) if have >= want else numbers // (want // have)


Hashes = npt.NDArray[np.uint64]
_Bytes = npt.NDArray[np.uint8]
_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_STRIPE: Final = 32
_CHUNK_BYTES: Final = 8 << 20
"""Bytes of texts of one length that are hashed at a time."""


def hash_texts(values: pa.Array) -> Hashes:
    """The hash of each value of a text or binary column without NULL."""
    wide = values.cast(pa.large_binary())
    if not len(wide):
        return np.empty(0, dtype=np.uint64)
    _, offsets, data = wide.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)
    out = np.empty(len(wide), dtype=np.uint64)
    for length, rows in _by_length(np.diff(bounds)):
        positions = bounds[rows][:, None] + np.arange(length)
        out[rows] = _hash_equal_lengths(content[positions] if length else np.empty((len(rows), 0), np.uint8))
    return out


def hash_numbers(values: npt.NDArray[np.int64]) -> Hashes:
    """Thomas Wang's hash of 64-bit whole numbers, shifts with the sign as the format's writers do them."""
    key = ~values + (values << 21)
    key = key ^ (key >> 24)
    key = (key + (key << 3)) + (key << 8)
    key = key ^ (key >> 14)
    key = (key + (key << 2)) + (key << 4)
    key = key ^ (key >> 28)
    mixed: Hashes = (key + (key << 31)).view(np.uint64)
    return mixed


def _by_length(lengths: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Rows of one length, in parts of bounded size."""
    order = np.argsort(lengths, kind="stable")
    distinct, starts = np.unique(lengths[order], return_index=True)
    for length, rows in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
        step = max(1, _CHUNK_BYTES // max(length, 1))
        for start in range(0, len(rows), step):
            yield length, rows[start : start + step]


def _hash_equal_lengths(texts: _Bytes) -> Hashes:
    """Hashes the rows of a matrix of bytes."""
    count, length = texts.shape
    at = length - length % _STRIPE
    h = _stripes(texts[:, :at]) if at else np.full(count, _P5)
    h = h + np.uint64(length)
    while length - at >= 8:
        h = _rotated_left(h ^ _mixed(np.uint64(0), _words(texts, at, np.uint64)), 27) * _P1 + _P4
        at += 8
    if length - at >= 4:
        h = _rotated_left(h ^ _words(texts, at, np.uint32).astype(np.uint64) * _P1, 23) * _P2 + _P3
        at += 4
    for byte in range(at, length):
        h = _rotated_left(h ^ texts[:, byte].astype(np.uint64) * _P5, 11) * _P1
    h = (h ^ h >> np.uint64(33)) * _P2
    h = (h ^ h >> np.uint64(29)) * _P3
    return h ^ h >> np.uint64(32)


def _stripes(texts: _Bytes) -> Hashes:
    """Takes the whole stripes of 32 bytes: four lanes side by side, then joined."""
    with np.errstate(over="ignore"):
        begin = (_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1)
    lanes = [np.full(len(texts), value) for value in begin]
    for at in range(0, texts.shape[1], _STRIPE):
        lanes = [_mixed(lane, _words(texts, at + 8 * i, np.uint64)) for i, lane in enumerate(lanes)]
    h: Hashes = np.add.reduce([_rotated_left(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)])
    for lane in lanes:
        h = (h ^ _mixed(np.uint64(0), lane)) * _P1 + _P4
    return h


def _mixed(lane: Hashes | np.uint64, word: Hashes) -> Hashes:
    mixed: Hashes = _rotated_left(lane + word * _P2, 31) * _P1
    return mixed


def _rotated_left(h: Hashes, by: int) -> Hashes:
    turned: Hashes = h << np.uint64(by) | h >> np.uint64(64 - by)
    return turned


def _words(texts: _Bytes, at: int, kind: type[np.unsignedinteger]) -> npt.NDArray[np.unsignedinteger]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(texts[:, at : at + size]).view(np.dtype(kind).newbyteorder("<"))[:, 0]
