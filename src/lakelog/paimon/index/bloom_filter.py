"""The Bloom filter of a column of a data file, with the bits of Apache Paimon's file index ``bloom-filter``."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.paimon.index.xx_hash import Hashes, hash_numbers, hash_texts
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
        """An empty filter for so many distinct values with this share of false answers."""
        least = int(-items * math.log(fpp) / math.log(2) ** 2)
        bits = least + 8 - least % 8
        return BloomFilter(max(1, math.floor(bits / items * math.log(2) + 0.5)), np.zeros(bits // 8, np.uint8))

    @staticmethod
    def from_bytes(data: bytes) -> BloomFilter:
        """The reverse of ``to_bytes``. Raises Corrupt for bytes that are no filter."""
        functions = struct.unpack_from(">i", data)[0] if len(data) > 4 else 0
        if not 0 < functions <= _MOST_FUNCTIONS:
            raise Corrupt(f"{len(data)} bytes are no Bloom filter")
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
        found = np.ones(len(hashes), dtype=np.bool_)
        for position in self._positions(hashes):
            found &= (self.bits[position >> 3] >> (position & 7).astype(np.uint8)) & 1 == 1
        return bool(found.any())

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
