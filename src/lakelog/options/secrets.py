"""Detection of secret values by the names of their options, for options that are not declared."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "******"
"""The text that is shown instead of a secret."""

_SOUNDS_SECRET: Final = re.compile(
    r"(?i)secret|passw|token|credential|(?:access|account|api|private|shared|encryption)[-._]?key|auth[-._]?params|jaas"
)
USER_IN_URL: Final = re.compile(r"(?<=://)[^/\s@]+(?=@)")


def looks_secret(key: str) -> bool:
    """True if an option of this name, in any system, probably holds a secret."""
    return _SOUNDS_SECRET.search(key) is not None


def without_password(value: str) -> str:
    """The value, with user and password in URLs hidden."""
    return USER_IN_URL.sub(HIDDEN, value)
