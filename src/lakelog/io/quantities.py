"""Quantities as people read them: counts, bytes and durations.

The dashboard's pages have the same rules in ``service/dashboard/static/words.js``.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Final

_BYTES: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
_DURATIONS: Final = ((1_000, 1, "ms"), (120_000, 1_000, "s"), (7_200_000, 60_000, "min"), (172_800_000, 3_600_000, "h"))
"""(Milliseconds from which the next unit is used, milliseconds of the unit, unit)."""


def counted(number: int, noun: str) -> str:
    """``1 file``, ``1,200 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_bytes(count: float) -> str:
    """Bytes in the largest unit with a whole part: ``999 bytes``, ``1.4 GB``."""
    value, at = _rounded(count, 0), 0
    while value >= 1_000 and at < len(_BYTES) - 1:
        at += 1
        value = _rounded(count / 1_000**at, 1)
    return f"{value} {_BYTES[at]}"


def format_duration(millis: float) -> str:
    """A duration or an age in the unit that fits: ``850 ms``, ``3.5 h``, ``45 min``; 0 for a negative one."""
    millis = max(0.0, millis)
    fitting = ((length, unit) for end, length, unit in _DURATIONS if _rounded(millis / length, 0) < end // length)
    length, unit = next(fitting, (86_400_000, "d"))
    amount = millis / length
    return f"{_rounded(amount, int(amount < 10 and length > 1))}".removesuffix(".0") + f" {unit}"


def _rounded(value: float, digits: int) -> Decimal:
    """Rounds half up, as JavaScript's ``toFixed`` does."""
    return Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
