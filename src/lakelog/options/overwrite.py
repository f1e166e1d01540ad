"""Options that select the rows which an overwrite replaces."""

from __future__ import annotations

from typing import Any, Final

from lakelog.options.option import Option

DYNAMIC_PARTITION_OVERWRITE: Final = Option(
    "dynamic-partition-overwrite",
    bool,
    True,
    "Whether an overwrite without a partition clause replaces only the partitions of the new rows, in a partitioned "
    "table. INSERT OVERWRITE takes spark.sql.sources.partitionOverwriteMode if the option is not given.",
    scope=("table", "write"),
)
OVERWRITE_PARTITION: Final = Option(
    "overwrite.partition",
    str,
    None,
    'Partition that a DataFrame overwrite replaces: partition columns and values as JSON, like {"day": "2024-01-31"}.',
    scope=("write",),
)
OVERWRITE_DATA_FILES: Final = Option(
    "overwrite.data-files",
    str,
    None,
    "Data files that an overwrite replaces in a table without a primary key, as a JSON list of names.",
    scope=("write",),
)
OVERWRITE_SAME_ROWS: Final = Option(
    "overwrite.same-rows",
    bool,
    False,
    "With overwrite.data-files: whether the new files hold the same rows as the old ones, so that readers of changes "
    "skip them.",
    scope=("write",),
)

OVERWRITE_OPTIONS: Final[tuple[Option[Any], ...]] = (
    DYNAMIC_PARTITION_OVERWRITE,
    OVERWRITE_PARTITION,
    OVERWRITE_DATA_FILES,
    OVERWRITE_SAME_ROWS,
)
