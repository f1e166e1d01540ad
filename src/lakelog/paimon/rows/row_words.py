"""Arrow columns as the 4-byte words that they put into BinaryRow bodies, many rows at a time (format sheet 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.rows.binary_row import COMPACT_DECIMAL, COMPACT_TIMESTAMP
from lakelog.paimon.rows.murmur import Words
from lakelog.paimon.types.arrow import time_unit
from lakelog.paimon.types.types import AtomicType, DataType

Longs = npt.NDArray[np.uint64]
MixSlot = Callable[[Words | int], None]
MixSome = Callable[[npt.NDArray[np.intp] | None, Words], None]

LONGEST_VALUE: Final = 1024
"""Bytes of a text above which a row is not worth a step of the whole chunk per word."""

_FIXED: Final[dict[str, type[np.unsignedinteger]]] = {
    "TINYINT": np.uint8, "SMALLINT": np.uint16, "INT": np.uint32, "DATE": np.uint32, "TIME": np.uint32,
    "FLOAT": np.uint32, "BIGINT": np.uint64, "DOUBLE": np.uint64,
}  # fmt: skip
_KEEP: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""``_KEEP[n]`` keeps the lowest n bytes of a long."""


class ColumnWords(ABC):
    """The words of one column in the bodies of rows ``start`` to ``stop``."""

    nulls: npt.NDArray[np.bool_] | None
    too_long: npt.NDArray[np.intp]
    """Rows whose words are not delivered, because they are too many."""

    def __init__(self, column: pa.Array) -> None:
        self.nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        self.too_long = np.empty(0, dtype=np.intp)

    @abstractmethod
    def mix_slot(self, mix: MixSlot, start: int, stop: int, position: Longs) -> Longs:
        """Mixes the two words of the field; takes and returns where the variable parts of the rows end."""

    @abstractmethod
    def mix_rest(self, mix: MixSome, start: int, stop: int) -> None:
        """Mixes the words of the variable part."""

    def _without_nulls(self, words: Words, start: int, stop: int) -> Words:
        if self.nulls is not None:
            words[self.nulls[start:stop]] = 0
        return words


def column_words(column: pa.Array, kind: DataType) -> ColumnWords | None:
    """The words of a column; None for a type that has no fast way."""
    if not isinstance(kind, AtomicType):
        return None
    precision = kind.precision or 0
    if kind.root == "BOOLEAN":
        return _IntWords(column, column.cast(pa.uint8()), np.uint8)
    if kind.root == "DECIMAL" and precision <= COMPACT_DECIMAL:
        return _LongWords(column, _values(column, np.uint64, 2)[::2])
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        if precision <= COMPACT_TIMESTAMP:
            return _LongWords(column, _values(column, np.uint64))
        return _TimestampWords(column, kind)
    if kind.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return _VariableLengthWords(column)
    dtype = _FIXED.get(kind.root)
    if dtype is None:
        return None
    return _LongWords(column, _values(column, np.uint64)) if dtype is np.uint64 else _IntWords(column, column, dtype)


def _values(column: pa.Array, dtype: type[np.unsignedinteger], per_row: int = 1) -> npt.NDArray[np.uint64]:
    """The values buffer of a fixed-width column as unsigned numbers, not copied."""
    start = column.offset * per_row
    return np.frombuffer(column.buffers()[1], dtype=dtype)[start : start + len(column) * per_row]


def _mix_long(mix: MixSlot, values: Longs) -> None:
    """Mixes the low word of each long, then the high one; ``values`` must be contiguous."""
    halves = values.view(np.uint32)
    mix(halves[0::2].copy())
    mix(halves[1::2].copy())


class _FieldWords(ColumnWords):
    """A column without a variable part."""

    def mix_rest(self, mix: MixSome, start: int, stop: int) -> None:
        return


class _IntWords(_FieldWords):
    """Values of up to 4 bytes: the second word is 0."""

    def __init__(self, column: pa.Array, values: pa.Array, dtype: type[np.unsignedinteger]) -> None:
        super().__init__(column)
        self._numbers = _values(values, dtype)

    def mix_slot(self, mix: MixSlot, start: int, stop: int, position: Longs) -> Longs:
        mix(self._without_nulls(self._numbers[start:stop].astype(np.uint32), start, stop))
        mix(0)
        return position


class _LongWords(_FieldWords):
    """Values of 8 bytes."""

    def __init__(self, column: pa.Array, numbers: Longs) -> None:
        super().__init__(column)
        self._numbers = numbers

    def mix_slot(self, mix: MixSlot, start: int, stop: int, position: Longs) -> Longs:
        values = np.ascontiguousarray(self._numbers[start:stop]).view(np.uint32)
        mix(self._without_nulls(values[0::2].copy(), start, stop))
        mix(self._without_nulls(values[1::2].copy(), start, stop))
        return position


class _TimestampWords(ColumnWords):
    """Timestamps finer than milliseconds: nanoseconds in the field, milliseconds in the variable part."""

    def __init__(self, column: pa.Array, kind: AtomicType) -> None:
        super().__init__(column)
        self._ticks = _values(column, np.uint64).view(np.int64)
        self._per_milli = 1000 if time_unit(kind) == "us" else 1_000_000

    def mix_slot(self, mix: MixSlot, start: int, stop: int, position: Longs) -> Longs:
        above = np.mod(self._ticks[start:stop], self._per_milli) * (1_000_000 // self._per_milli)
        mix(self._without_nulls(above.astype(np.uint32), start, stop))
        mix(position.astype(np.uint32))
        return position + np.uint64(8)

    def mix_rest(self, mix: MixSome, start: int, stop: int) -> None:
        halves = np.floor_divide(self._ticks[start:stop], self._per_milli).view(np.uint32)
        mix(None, self._without_nulls(halves[0::2].copy(), start, stop))
        mix(None, self._without_nulls(halves[1::2].copy(), start, stop))


class _VariableLengthWords(ColumnWords):
    """Text and bytes: up to 7 bytes in the field, more in the variable part, padded to 8."""

    def __init__(self, column: pa.Array) -> None:
        super().__init__(column)
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        offsets = np.frombuffer(column.buffers()[1], dtype=np.int64 if large else np.int32)
        self._ends = offsets[column.offset : column.offset + len(column) + 1]
        self._longs = _longs_at_bytes(column.buffers()[2], int(self._ends[-1]))
        lengths = pc.binary_length(column)
        if (pc.max(lengths).as_py() or 0) > LONGEST_VALUE:
            self.too_long = np.flatnonzero(pc.greater(lengths, LONGEST_VALUE).fill_null(False).to_numpy(False))

    def _chunk(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        begins = self._ends[start:stop].astype(np.int64)
        lengths = self._ends[start + 1 : stop + 1].astype(np.int64) - begins
        if self.nulls is not None:
            lengths[self.nulls[start:stop]] = 0
        if len(self.too_long):
            lengths[lengths > LONGEST_VALUE] = 0
        return begins, lengths

    def mix_slot(self, mix: MixSlot, start: int, stop: int, position: Longs) -> Longs:
        begins, lengths = self._chunk(start, stop)
        slots = self._longs[begins]
        slots &= _KEEP[np.minimum(lengths, 7)]
        slots |= (lengths.view(np.uint64) | np.uint64(0x80)) << np.uint64(56)
        long = np.flatnonzero(lengths > 7)
        if len(long):
            slots[long] = position[long] << np.uint64(32) | lengths[long].view(np.uint64)
            position = position.copy()
            position[long] += (lengths[long].view(np.uint64) + np.uint64(7)) & ~np.uint64(7)
        if self.nulls is not None:
            slots[self.nulls[start:stop]] = 0
        _mix_long(mix, slots)
        return position

    def mix_rest(self, mix: MixSome, start: int, stop: int) -> None:
        begins, lengths = self._chunk(start, stop)
        rows = np.flatnonzero(lengths > 7)
        begins, left = begins[rows], lengths[rows]
        everyone = len(rows) == stop - start
        while len(rows):
            values = self._longs[begins] & _KEEP[np.minimum(left, 8)]
            halves = values.view(np.uint32)
            mix(None if everyone else rows, halves[0::2].copy())
            mix(None if everyone else rows, halves[1::2].copy())
            begins, left = begins + 8, left - 8
            more = left > 0
            if not more.all():
                rows, begins, left, everyone = rows[more], begins[more], left[more], False


def _longs_at_bytes(data: pa.Buffer | None, size: int) -> Longs:
    """The 8 bytes that begin at each byte of a buffer, as numbers; zeros follow its end."""
    padded = np.zeros(size + 16, dtype=np.uint8)
    if data is not None and size:
        padded[:size] = np.frombuffer(data, dtype=np.uint8, count=size)
    return np.ndarray(shape=(size + 9,), dtype="<u8", buffer=padded, strides=(1,))
