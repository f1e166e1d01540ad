"""Which values are shown to nobody: told by the names of their options, where these are not declared."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "******"
"""What is shown instead."""

_SOUNDS_SECRET: Final = re.compile(
    r"(?i)secret|passw|token|credential|(?:access|account|api|private|shared|encryption)[-._]?key|auth[-._]?params|jaas"
)
USER_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def looks_secret(key: str) -> bool:
    """Whether an option of this name, of whatever system, most likely has a secret."""
    return _SOUNDS_SECRET.search(key) is not None


def without_password(value: str) -> str:
    """The value with what stands before the host of a URL hidden."""
    return USER_IN_URL.sub(HIDDEN, value)
