"""Options of what `lakelog optimize` does with a table; the keys of Apache Amoro are other spellings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

OPTIMIZER_ENABLED: Final = Option(
    "optimizer.enabled",
    bool,
    True,
    "Whether `lakelog optimize` looks after the table; commands and writers do what they are told either way.",
    aliases=("self-optimizing.enabled",),
)
ORPHAN_INTERVAL: Final = Option(
    "optimizer.orphan-interval",
    timedelta,
    timedelta(days=7),
    "How long after the last cleaning `lakelog optimize` looks for orphan files again; 0 never does.",
)

OPTIMIZER_OPTIONS: Final[tuple[Option[Any], ...]] = (OPTIMIZER_ENABLED, ORPHAN_INTERVAL)
