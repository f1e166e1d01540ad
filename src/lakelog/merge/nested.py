"""Values of nested columns, compared."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


def frozen(value: Any) -> Hashable:
    """A nested Python value as one that can be a key of a dict; equal values give equal keys, NaN equals itself."""
    if isinstance(value, dict):
        return ("row", *((name, frozen(part)) for name, part in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *(frozen(part) for part in value))
    if isinstance(value, float) and value != value:
        return ("NaN",)
    if isinstance(value, float) and value == 0:
        return ("zero", str(value))
    return value  # type: ignore[no-any-return]
