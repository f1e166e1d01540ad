"""Template filters that format figures for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakelog.io.clock import now_ms
from lakelog.io.quantities import format_bytes, format_duration

NOTHING: Final = "–"


def count(value: float | None) -> str:
    """``1,234,567``."""
    return NOTHING if value is None else f"{value:,.0f}"


def size(value: int | None) -> str:
    """Bytes as ``1.2 MB``."""
    return NOTHING if value is None else format_bytes(value)


def duration(ms: float | None) -> str:
    """``850 ms``, ``3.2 s``, ``5 min``, ``2 d``."""
    return NOTHING if ms is None else format_duration(ms)


def ago(time_ms: float | None) -> str:
    """The age of a time, ``now`` within a second."""
    if time_ms is None:
        return "never"
    past = now_ms() - time_ms
    return "now" if past < 1_000 else f"{duration(past)} ago"


def instant(time_ms: float | None) -> str:
    """``2024-01-31 12:00:00 UTC``."""
    if time_ms is None:
        return NOTHING
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
