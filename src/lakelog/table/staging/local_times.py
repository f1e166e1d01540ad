"""Times without a zone in a column with one: local times of this process, as in filters and in SQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_S: Final = -62_104_060_800
"""The year 2: an earlier local time has the offset of then, because its instant may be before the year 1."""
_LAST_S: Final = 253_370_764_800
"""The year 9999: the same at the other end."""


def needs_zone(have: pa.DataType, want: pa.DataType) -> bool:
    """True if the values are times without a zone, and the column has one."""
    return bool(pa.types.is_timestamp(have) and pa.types.is_timestamp(want) and want.tz and not have.tz)


def as_instants(column: pa.Array) -> pa.Array:
    """Local times as instants (zone UTC) in the same unit; each as ``datetime.astimezone`` takes it in a filter."""
    kind = pa.timestamp(column.type.unit, "UTC")
    is_utc = time.timezone == 0 and not time.daylight
    if is_utc or column.null_count == len(column):
        return column.cast(kind)
    ticks = pc.fill_null(column, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    seconds = np.clip(ticks // per_second, _FIRST_S, _LAST_S)
    offsets = _offsets(seconds)
    return pa.array(ticks - offsets * per_second, mask=column.is_null().to_numpy(zero_copy_only=False)).cast(kind)


def _offsets(seconds: np.ndarray, steps: Sequence[int] = (86_400, 900, 1)) -> np.ndarray:
    """The offset from UTC in seconds of each local time (seconds since 1970).

    A zone seldom changes its offset: only in days with a change are quarters of an hour, or seconds, looked at.
    """
    step = steps[0]
    parts, which = np.unique(seconds // step, return_inverse=True)
    out: np.ndarray = np.array([_offset(int(part) * step) for part in parts], dtype=np.int64)[which]
    if step > 1:
        last = np.array([_offset(int(part) * step + step - 1) for part in parts], dtype=np.int64)[which]
        changed = np.flatnonzero(out != last)
        out[changed] = _offsets(seconds[changed], steps[1:]) if len(changed) else out[changed]
    return out


def _offset(second: int) -> int:
    local = _EPOCH + timedelta(seconds=second)
    return round((local - local.astimezone(UTC).replace(tzinfo=None)).total_seconds())
