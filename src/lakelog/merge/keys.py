"""Key columns in a form that numpy and polars can sort, and that is comparable across batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.merge.base import Indices

Numbers: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = Numbers | pa.Array
"""One key column: integers in the order of the values if the type allows it, else binary or decimal values."""
Key: TypeAlias = tuple[Any, ...]
"""The values of one key, comparable with those of every batch with the same columns."""
_LONG_DECIMAL: Final = 18
_MAX_SPAN: Final = 1 << 63


def key_parts(batch: pa.RecordBatch, columns: Sequence[str]) -> list[Part]:
    """The key columns of a batch in comparable form. Raises InvalidSchema for a null key or a type without order."""
    return [_part(name, batch.column(name)) for name in columns]


def key_at(parts: Sequence[Part], row: int) -> Key:
    """The key of one row."""
    return tuple(int(p[row]) if isinstance(p, np.ndarray) else p[row].as_py() for p in parts)


def rows_up_to(parts: Sequence[Part], start: int, stop: int, key: Key) -> int:
    """The end of the rows of ``[start, stop)`` whose key is at most ``key``; the rows are sorted."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        low, high = (start + int(np.searchsorted(first[start:stop], key[0], side)) for side in ("left", "right"))
        if len(parts) == 1 or low == high:
            return high
        start, stop = low, high
    return bisect_right(range(stop), key, lo=start, hi=stop, key=lambda row: key_at(parts, row))


def sort_rows(parts: Sequence[Part]) -> Indices:
    """Row numbers in key order; equal keys keep the order of the rows.

    Made for a concatenation of sorted runs, because numpy's stable sort finds the runs and only merges them.
    """
    numbers = _packed(parts)
    if numbers is not None:
        return np.argsort(numbers, kind="stable")
    frame = pl.DataFrame([pl.Series(str(i), part) for i, part in enumerate(parts)])
    order = frame.select(pl.arg_sort_by(frame.columns, maintain_order=True)).to_series()
    return order.to_numpy().astype(np.int64)


def key_starts(parts: Sequence[Part], order: Indices | None) -> npt.NDArray[np.bool_]:
    """A mask of the rows in the order whose key differs from the row before; true for the first."""
    rows = len(parts[0])
    new = np.zeros(rows, dtype=np.bool_)
    new[:1] = True
    for part in parts:
        if isinstance(part, np.ndarray):
            values = part if order is None else part[order]
            new[1:] |= values[1:] != values[:-1]
        else:
            sorted_part = part if order is None else part.take(pa.array(order))
            new[1:] |= pc.not_equal(sorted_part[1:], sorted_part[:-1]).to_numpy(zero_copy_only=False)
    return new


def concat_parts(parts: Sequence[Part]) -> Part:
    """One key column of several batches, concatenated."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.concat_arrays(parts)


def taken(part: Part, rows: Indices) -> Part:
    """Some values of a key column."""
    return part[rows] if isinstance(part, np.ndarray) else part.take(pa.array(rows))


def _part(name: str, array: pa.Array) -> Part:
    if array.null_count:
        raise InvalidSchema(f"key column '{name}' has {array.null_count} NULL values: a key column must not be NULL")
    return comparable(name, array)


def comparable(name: str, array: pa.Array) -> Part:
    """A column without NULL in comparable form. Raises InvalidSchema for a type without order."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return comparable(name, array.dictionary_decode())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return array.to_numpy().astype(np.int64, copy=False)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        return array.view(bits).to_numpy().astype(np.int64, copy=False)
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).to_numpy().astype(np.int64)
    if pa.types.is_floating(kind):
        return _float_part(array.cast(pa.float64()).to_numpy())
    if pa.types.is_decimal128(kind):
        return _short_decimal(array) if kind.precision <= _LONG_DECIMAL else array
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return array.cast(pa.binary())
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary())
    raise InvalidSchema(f"column '{name}' of type {kind} has no order")


def _float_part(values: npt.NDArray[np.float64]) -> Numbers:
    """Numbers with the order of the floats; -0.0 is 0.0, and NaN is the largest and equal to itself."""
    same = np.where(np.isnan(values), np.nan, values + 0.0)
    bits = same.view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


def _short_decimal(array: pa.Array) -> Numbers:
    words = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array), 0]


def _packed(parts: Sequence[Part]) -> Numbers | None:
    """All key columns in one number per row with the same order; None if they do not fit."""
    first = parts[0]
    if isinstance(first, np.ndarray) and len(parts) == 1:
        return first
    spans = []
    total = 1
    for part in parts:
        if not isinstance(part, np.ndarray):
            return None
        low, high = int(part.min()), int(part.max())
        spans.append((low, high - low + 1))
        total *= high - low + 1
    if total >= _MAX_SPAN:
        return None
    out = np.zeros(len(first), dtype=np.int64)
    for part, (low, span) in zip(parts, spans, strict=True):
        out *= span
        out += part - low
    return out


def find_keys(keys: Sequence[Part], among: Sequence[Part]) -> Indices:
    """For each of ``keys`` its row in ``among``; -1 if there is none.

    Both are key columns in comparable form (``merge.keys.key_parts``) of the same types, sorted, each key once. Called
    for each piece of a compaction that looks up the replaced rows.
    """
    first, other = keys[0], among[0]
    if len(keys) == 1 and isinstance(first, np.ndarray) and isinstance(other, np.ndarray):
        if not len(other):
            return np.full(len(first), -1)
        at = np.minimum(np.searchsorted(other, first), len(other) - 1)
        return np.where(other[at] == first, at, -1)
    rows = len(other)
    both = [concat_parts([there, here]) for there, here in zip(among, keys, strict=True)]
    order = sort_rows(both)
    # equal keys keep their order, so the row before that of a wanted key is the one with its key
    again = np.flatnonzero(~key_starts(both, order))
    positions = np.full(len(first), -1)
    positions[order[again] - rows] = order[again - 1]
    return positions
