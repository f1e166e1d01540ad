"""Template filters that format figures for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakelog.io.clock import now_ms

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_BYTES: Final = ("kB", "MB", "GB", "TB", "PB")
NOTHING: Final = "–"


def count(value: float | None) -> str:
    """``1,234,567``."""
    return NOTHING if value is None else f"{value:,.0f}"


def size(value: int | None) -> str:
    """Bytes as ``1.2 MB``."""
    if value is None:
        return NOTHING
    if value < 1_000:
        return f"{value:.0f} bytes"
    power = min(len(_BYTES), (len(str(int(value))) - 1) // 3)
    return f"{value / 1_000**power:.1f} {_BYTES[power - 1]}"


def duration(ms: float | None) -> str:
    """``850 ms``, ``3.2 s``, ``5 min``, ``2 d``."""
    if ms is None:
        return NOTHING
    if abs(ms) < 1_000:
        return f"{ms:.0f} ms"
    for unit_ms, name in _UNITS:
        if abs(ms) >= unit_ms:
            amount = ms / unit_ms
            return f"{amount:.1f} {name}" if amount < 10 and name == "s" else f"{amount:.0f} {name}"
    return f"{ms:.0f} ms"


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
