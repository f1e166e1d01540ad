"""The bucket of a row: Murmur3 over the BinaryRow body of its bucket key (format sheet 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.paimon.rows.binary_row import encode_row, head_size
from lakelog.paimon.rows.murmur import SEED, Words, finish, mix, mix_constant, mix_one, murmur_one
from lakelog.paimon.rows.row_words import ColumnWords, column_words
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_type
from lakelog.paimon.types.types import AtomicType, DataType

Hashes = npt.NDArray[np.int32]
_CHUNK = 1 << 14
"""Rows hashed at a time, so that the states stay in the processor's cache."""
_WIDEST = 56
"""Columns whose null bits fit into one 8-byte head."""


def bucket_of_rows(batch: pa.RecordBatch | pa.Table, schema: TableSchema) -> Hashes:
    """The bucket of every row (int32); 0 everywhere for an append table without fixed buckets.

    Called once per batch by writers; the batch has the table's columns by name. Raises UnsupportedFeature for a keyed
    table without fixed buckets, and for a key that ``bucket-function.type`` = ``hive`` does not take.
    """
    buckets = schema.num_buckets
    if buckets < 1:
        if schema.is_keyed:
            raise UnsupportedFeature(
                f"option 'bucket' = '{buckets}' of a table with a primary key is read-only: choose a fixed number of "
                "buckets"
            )
        return np.zeros(batch.num_rows, dtype=np.int32)
    if buckets == 1:
        return np.zeros(batch.num_rows, dtype=np.int32)
    function = schema.options.get("bucket-function.type", "default")
    keys = schema.select(schema.bucket_keys)
    columns = [batch.column(f.name) for f in keys]
    if function == "mod":
        return _remainders(columns, buckets)
    if function == "hive":
        return hive_buckets([_plain(c, f.type) for c, f in zip(columns, keys, strict=True)], buckets)
    hashes = row_hashes(columns, [f.type for f in keys])
    return np.abs(np.fmod(hashes, np.int32(buckets)))


def rows_by_bucket(buckets: Hashes) -> dict[int, npt.NDArray[np.int64]]:
    """Bucket → indices of its rows, ascending."""
    if len(buckets) and (buckets == buckets[0]).all():
        return {int(buckets[0]): np.arange(len(buckets))}
    order = np.argsort(buckets, kind="stable")
    distinct, starts = np.unique(buckets[order], return_index=True)
    return dict(zip(distinct.tolist(), np.split(order, starts[1:]), strict=True))


def row_hashes(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Hashes:
    """The hash (int32) of each row of key columns of equal length.

    Fixed-width values, text and bytes go without a loop over rows; rows with values above 1 kB, decimals above 18
    digits and keys of more than 56 columns are encoded one by one.
    """
    arrays = [_plain(c, kind) for c, kind in zip(columns, types, strict=True)]
    rows = len(arrays[0])
    words = [column_words(a, kind) for a, kind in zip(arrays, types, strict=True)] if len(types) <= _WIDEST else [None]
    known = [w for w in words if w is not None]
    if len(known) < len(types):
        return _one_by_one(arrays, types, range(rows))
    out = np.empty(rows, dtype=np.int32)
    for start in range(0, rows, _CHUNK):
        stop = min(start + _CHUNK, rows)
        out[start:stop] = _hash_chunk(known, start, stop)
    for long in (w.too_long for w in known):
        if len(long):
            out[long] = _one_by_one(arrays, types, long.tolist())
    return out


def _hash_chunk(columns: Sequence[ColumnWords], start: int, stop: int) -> Hashes:
    rows, arity = stop - start, len(columns)
    state = _State(rows)
    nulls = [c.nulls[start:stop] if c.nulls is not None else None for c in columns]
    _mix_head(state, nulls)
    position: npt.NDArray[np.uint64] = np.full(rows, head_size(arity) + 8 * arity, dtype=np.uint64)
    for column in columns:
        position = column.mix_slot(state.mix, start, stop, position)
    for column in columns:
        column.mix_rest(state.mix_some, start, stop)
    return finish(state.array(), position.astype(np.uint32), state.scratch)


def _mix_head(state: _State, nulls: Sequence[npt.NDArray[np.bool_] | None]) -> None:
    if all(mask is None for mask in nulls):
        state.mix(0)
        state.mix(0)
        return
    bits = np.zeros(state.rows, dtype=np.uint64)
    for i, mask in enumerate(nulls):
        if mask is not None:
            bits |= mask.astype(np.uint64) << np.uint64(i + 8)
    halves = bits.view(np.uint32)
    state.mix(halves[0::2].copy())
    state.mix(halves[1::2].copy())


class _State:
    """Hash states of the rows of a chunk: one number as long as all rows had the same words."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._same: int | None = SEED
        self._each: Words = np.empty(rows, dtype=np.uint32)
        self.scratch: Words = np.empty(rows, dtype=np.uint32)

    def array(self) -> Words:
        if self._same is not None:
            self._each.fill(self._same)
            self._same = None
        return self._each

    def mix(self, word: Words | int) -> None:
        """Takes a word per row, or one for all; an array is destroyed."""
        if isinstance(word, int):
            if self._same is not None:
                self._same = mix_one(self._same, word)
            else:
                mix_constant(self._each, word, self.scratch)
        else:
            mix(self.array(), word, self.scratch)

    def mix_some(self, rows: npt.NDArray[np.intp] | None, word: Words) -> None:
        """Takes a word for some rows (None: all), in their order."""
        if rows is None:
            self.mix(word)
            return
        states = self.array()
        some = states[rows]
        mix(some, word, self.scratch[: len(some)])
        states[rows] = some


def _one_by_one(arrays: Sequence[pa.Array], types: Sequence[DataType], rows: Sequence[int] | range) -> Hashes:
    chosen = [a.take(pa.array(rows, pa.int64())) for a in arrays]
    values = zip(*(python_values(a) for a in chosen), strict=True)
    return np.fromiter((murmur_one(encode_row(v, types)[4:]) for v in values), dtype=np.int32, count=len(rows))


def python_values(column: pa.Array) -> list[object]:
    """Values as ``encode_row`` takes them; times as whole numbers, so that none is out of Python's range."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_time32(kind):
        return list(column.view(pa.int32()).to_pylist())
    if pa.types.is_timestamp(kind):
        return list(column.view(pa.int64()).to_pylist())
    return list(column.to_pylist())


def _plain(column: pa.Array | pa.ChunkedArray, kind: DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    arrow = arrow_type(kind)
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    return column if column.type == arrow or large else column.cast(arrow)


def _remainders(columns: Sequence[pa.Array | pa.ChunkedArray], buckets: int) -> Hashes:
    if len(columns) != 1 or not pa.types.is_integer(columns[0].type) or columns[0].null_count:
        raise InvalidOption(
            "option 'bucket-function.type' = 'mod' needs one bucket key of type INT or BIGINT without NULL"
        )
    numbers: npt.NDArray[np.int64] = _plain(columns[0], AtomicType("BIGINT")).to_numpy()
    return np.mod(numbers, buckets).astype(np.int32)


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
        hashes = column.fill_null(False).cast(pa.int8()).to_numpy().astype(np.int32)
    elif pa.types.is_date32(kind):
        hashes = column.view(pa.int32()).fill_null(0).to_numpy()
    elif pa.types.is_int64(kind):
        hashes = _folded(column.fill_null(0).to_numpy())
    elif pa.types.is_integer(kind):
        hashes = column.fill_null(0).to_numpy().astype(np.int32)
    elif pa.types.is_floating(kind):
        hashes = _of_floats(column.fill_null(0).to_numpy())
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = _of_bytes(column.cast(pa.binary()).fill_null(b""))
    elif pa.types.is_decimal(kind):
        values = (0 if v is None else _of_decimal(v) for v in column.to_pylist())
        hashes = np.fromiter(values, dtype=np.int32, count=len(column))
    else:
        raise UnsupportedFeature(f"option 'bucket-function.type' = 'hive' does not support a bucket key of type {kind}")
    return np.where(valid, hashes, np.int32(0)).astype(np.int32)


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
