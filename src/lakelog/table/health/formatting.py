"""Metrics as text: counts, sizes and ages, for health messages."""

from __future__ import annotations

_UNIT = 1000


def counted(number: int, noun: str) -> str:
    """``1 file``, ``1,200 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_bytes(count: int) -> str:
    """Bytes as text: ``1.4 GB``."""
    value, units = float(count), ("bytes", "kB", "MB", "GB", "TB", "PB")
    for unit in units:
        if value < _UNIT or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= _UNIT
    return ""


def format_age(millis: float) -> str:
    """A time as text, in the unit that fits: ``45 s``, ``3.5 h``."""
    seconds = max(0.0, millis / 1000)
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds / 86_400:.1f}".removesuffix(".0") + " d"
