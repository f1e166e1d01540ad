"""Options of what an overwrite replaces."""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.option import Option

DYNAMIC_PARTITION_OVERWRITE: Final = Option(
    "dynamic-partition-overwrite",
    bool,
    True,
    "An overwrite of a partitioned table that names no partition replaces only those that the new rows have.",
    scope=("table", "write"),
)
OVERWRITE_PARTITION: Final = Option(
    "overwrite.partition",
    str,
    None,
    'What an overwrite by a DataFrame replaces: partition columns and values as JSON, like {"day": "2024-01-31"}.',
    scope=("write",),
)
OVERWRITE_DATA_FILES: Final = Option(
    "overwrite.data-files",
    str,
    None,
    "What an overwrite of a table without a primary key replaces instead: these data files, as a JSON list of names.",
    scope=("write",),
)
OVERWRITE_SAME_ROWS: Final = Option(
    "overwrite.same-rows",
    bool,
    False,
    "With overwrite.data-files: the new files have the rows of the old ones, so that readers of changes skip them.",
    scope=("write",),
)

OVERWRITE_OPTIONS: Final[tuple[Option[Any], ...]] = (
    DYNAMIC_PARTITION_OVERWRITE,
    OVERWRITE_PARTITION,
    OVERWRITE_DATA_FILES,
    OVERWRITE_SAME_ROWS,
)
