"""Folds the rows of a key: sorted runs go in, one row per key comes out. Pure: no files, no engine."""

from __future__ import annotations

from typing import Final

from lakelog.errors import UnsupportedFeature
from lakelog.merge.base import MergeEngine
from lakelog.options.registry import Registry

ENGINES: Final[Registry[MergeEngine]] = Registry(
    "merge engine", {"deduplicate": "lakelog.merge.engines.deduplicate:Deduplicate"}
)
"""Merge engines by the value of option ``merge-engine``."""

_OF_THE_FORMAT: Final = ("partial-update", "aggregation", "first-row")


def merge_engine(name: str, ignore_delete: bool = False) -> MergeEngine:
    """The merge engine of a table (format sheet, 8).

    Called before a bucket is merged. Raises UnsupportedFeature for an engine of the format that lakelog does not have,
    InvalidRequest for an unknown name.
    """
    if name in _OF_THE_FORMAT and name not in ENGINES:
        raise UnsupportedFeature(
            f"option 'merge-engine' = '{name}' is not supported; lakelog merges: {', '.join(ENGINES)}. "
            f"Read this table with another engine"
        )
    return ENGINES.create(name, ignore_delete=ignore_delete)
