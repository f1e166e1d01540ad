"""Folds the rows of a key: sorted runs go in, one row per key comes out. Pure: no files, no engine."""

from __future__ import annotations

from typing import Final

from lakelog.merge.base import MergeEngine
from lakelog.options import parts
from lakelog.options.registry import Registry
from lakelog.paimon.schema.schema import TableSchema

ENGINES: Final[Registry[MergeEngine]] = parts.MERGE_ENGINES
"""Merge engines by the value of option ``merge-engine``."""


def merge_engine(name: str, schema: TableSchema) -> MergeEngine:
    """The merge engine of a table (format sheet, 8).

    Called before a bucket is merged. Raises InvalidRequest for an unknown name, InvalidOption for options of the
    engine that do not fit the columns, UnsupportedFeature for an aggregate function that lakelog does not have.
    """
    return ENGINES.create(name, schema)
