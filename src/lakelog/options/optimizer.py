"""Options of what `lakelog optimize` does with a table; the keys of Apache Amoro are other spellings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from lakelog.options.option import Option

OPTIMIZER_ENABLED: Final = Option(
    "optimizer.enabled",
    bool,
    True,
    "Whether `lakelog optimize` maintains the table. Commands and writers are not affected.",
    aliases=("self-optimizing.enabled",),
)
ORPHAN_INTERVAL: Final = Option(
    "optimizer.orphan-interval",
    timedelta,
    timedelta(days=7),
    "Interval between orphan file cleanings of `lakelog optimize`. 0 disables them.",
)

OPTIMIZER_OPTIONS: Final[tuple[Option[Any], ...]] = (OPTIMIZER_ENABLED, ORPHAN_INTERVAL)
