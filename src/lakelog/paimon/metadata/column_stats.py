"""Minimum, maximum and null count of columns, and conclusions from them (format sheet 4.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt, InvalidOption
from lakelog.paimon.metadata.data_file import EMPTY_STATS, SimpleStats
from lakelog.paimon.rows.binary_row import arity_of, decode_row, encode_row
from lakelog.paimon.types.types import AtomicType, DataField, DataType, is_ordered

DEFAULT_MODE: Final = "truncate(16)"

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def collect_stats(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[DataField],
    mode: str = DEFAULT_MODE,
    modes: Mapping[str, str] | None = None,
) -> SimpleStats:
    """Statistics of the columns ``fields`` of a table, found by name.

    ``mode`` is ``none``, ``counts``, ``full`` or ``truncate(n)`` (text and bytes cut to n); ``modes`` overrides it for
    single columns. Mode none for all columns gives EMPTY_STATS. Raises InvalidOption for another mode.
    """
    chosen = [_parse_mode((modes or {}).get(f.name, mode)) for f in fields]
    if all(m == ("none", 0) for m in chosen):
        return EMPTY_STATS
    lows, highs, nulls = [], [], []
    for field, (word, length) in zip(fields, chosen, strict=True):
        column = table.column(field.name)
        low, high = (None, None) if word in ("none", "counts") else _bounds(column, field.type)
        if word == "truncate":
            low, high = _cut_low(low, length), _cut_high(high, length)
        lows.append(low)
        highs.append(high)
        nulls.append(None if word == "none" else column.null_count)
    types = [f.type for f in fields]
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), tuple(nulls))


def stats_bounds(stats: SimpleStats, types: Sequence[DataType], i: int) -> tuple[Any, Any, int | None]:
    """(minimum, maximum, null count) of column ``i``; None means unknown, and then nothing may be skipped by it.

    Called by planning, per file and filtered column. A maximum cut by ``truncate`` is not a value of the file, only
    not smaller than any.
    """
    nulls = stats.null_counts[i] if i < len(stats.null_counts) else None
    if arity_of(stats.min_values) != len(types) or arity_of(stats.max_values) != len(types):
        return None, None, nulls
    return _one(stats.min_values, types, i), _one(stats.max_values, types, i), nulls


def _one(row: bytes, types: Sequence[DataType], i: int) -> Any:
    if not is_ordered(types[i]):
        # no filter compares whole lists, maps, rows or variants
        return None
    try:
        # only the wanted column is decoded: the others are taken for plain numbers
        plain: list[DataType] = [_ANY] * len(types)
        plain[i] = types[i]
        value = decode_row(row, plain)[i]
        # a DATE out of Python's range comes as a number of days
        return None if types[i] in _DATES and isinstance(value, int) else value
    except Corrupt:
        # a timestamp out of Python's range has no value that a filter could be compared with
        return None


_ANY: Final = AtomicType("BIGINT")
_DATES: Final = (AtomicType("DATE"), AtomicType("DATE", False))


def parse_stats_modes(options: Mapping[str, str]) -> dict[str, str]:
    """Column → mode, from the options ``fields.<column>.stats-mode``."""
    matches = ((re.fullmatch(r"fields\.(.+)\.stats-mode", key), mode) for key, mode in options.items())
    return {match[1]: mode for match, mode in matches if match}


def _parse_mode(text: str) -> tuple[str, int]:
    word = text.strip().lower()
    if word in ("none", "counts", "full"):
        return word, 0
    match = re.fullmatch(r"truncate\(\s*(\d+)\s*\)", word)
    if match is None or int(match[1]) < 1:
        raise InvalidOption(f"option 'metadata.stats-mode' = '{text}': write none, counts, full or truncate(16)")
    return "truncate", int(match[1])


def _bounds(column: pa.Array | pa.ChunkedArray, kind: DataType) -> tuple[Any, Any]:
    if not is_ordered(kind) or column.null_count == len(column):
        return None, None
    if pa.types.is_floating(column.type):
        return _float_bounds(column)
    extremes = pc.min_max(column)
    return _value(extremes["min"]), _value(extremes["max"])


def _float_bounds(column: pa.Array | pa.ChunkedArray) -> tuple[float, float]:
    """In the order of Java's ``Double.compare``: NaN above all, -0.0 below 0.0."""
    extremes = pc.min_max(pc.drop_null(column.filter(pc.invert(pc.is_nan(column)))))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None:
        return float("nan"), float("nan")
    has_nan = pc.any(pc.is_nan(column)).as_py()
    # which zero is not known here; these bounds hold for both
    return (-0.0 if low == 0 else low), (float("nan") if has_nan else 0.0 if high == 0 else high)


def _value(scalar: pa.Scalar) -> Any:
    """A value as ``encode_row`` takes it; times as whole numbers, so that none is out of Python's range."""
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()


def _cut_low(value: Any, length: int) -> Any:
    return value[:length] if isinstance(value, str | bytes) else value


def _cut_high(value: Any, length: int) -> Any:
    """An upper bound of a value with at most ``length`` characters; None if none exists."""
    if not isinstance(value, str | bytes) or len(value) <= length:
        return value
    return _next_text(value[:length]) if isinstance(value, str) else _next_bytes(value[:length])


def _next_text(prefix: str) -> str | None:
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE_POINT:
            return prefix[:i] + chr(code)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    for i in range(len(prefix) - 1, -1, -1):
        if prefix[i] < 0xFF:
            return prefix[:i] + bytes((prefix[i] + 1,))
    return None


def merge_bounds(rows: Sequence[Sequence[Any]], types: Sequence[DataType]) -> SimpleStats:
    """Statistics of a few rows of values, as a manifest list keeps them for the partitions of a manifest.

    Called with one row per manifest entry; without columns, or without rows, gives EMPTY_STATS.
    """
    if not types or not rows:
        return EMPTY_STATS
    lows, highs, nulls = [], [], []
    for column in zip(*rows, strict=True):
        known = [v for v in column if v is not None]
        lows.append(min(known, default=None, key=_order))
        highs.append(max(known, default=None, key=_order))
        nulls.append(len(column) - len(known))
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), tuple(nulls))


def _order(value: Any) -> Any:
    """Text in the order of its bytes; NaN above all numbers."""
    if isinstance(value, str):
        return value.encode()
    return (bool(np.isnan(value)), value) if isinstance(value, float) else value
