"""Integers with the order of column values, NULL smallest; numpy compares them instead of the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.merge.keys import Numbers, comparable


def order_numbers(columns: Sequence[pa.Array], descending: bool = False) -> Numbers:
    """One number per row, in the order of the tuples of the columns' values; equal tuples have equal numbers.

    Called to order the rows of a key by ``sequence.field`` or by a sequence group. NULL is smaller than every value,
    even with ``descending``, which reverses the order of all other values. Numbers of several columns start at 0.
    """
    numbers = [_one(column, descending) for column in columns]
    if len(numbers) == 1:
        return numbers[0]
    out = dense(numbers[0])
    for part in numbers[1:]:
        ranks = dense(part)
        out = dense(out * (int(ranks.max(initial=0)) + 1) + ranks)
    return out


def dense(numbers: Numbers) -> Numbers:
    """The same order with numbers from 0 without gaps."""
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64, copy=False)


def _one(column: pa.Array, descending: bool) -> Numbers:
    values = comparable("sequence field", column.drop_null())
    if not isinstance(values, np.ndarray):
        values = pl.Series(values).rank("dense").to_numpy().astype(np.int64)
    if descending:
        values = ~values
    if not column.null_count:
        return values
    if len(values) and int(values.min()) == np.iinfo(np.int64).min:
        values = dense(values)
    out = np.full(len(column), int(values.min()) - 1 if len(values) else 0, dtype=np.int64)
    out[column.is_valid().to_numpy(zero_copy_only=False)] = values
    return out


def total_order_numbers(column: pa.Array) -> Numbers:
    """One number per row, in the order of a column without NULL. For ``max`` and ``min``: -0.0 is smaller than 0.0."""
    if pa.types.is_floating(column.type):
        bits = column.cast(pa.float64()).to_numpy()
        bits = np.where(np.isnan(bits), np.nan, bits).view(np.int64)
        ordered: Numbers = bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))
        return ordered
    return _one(column, descending=False)
