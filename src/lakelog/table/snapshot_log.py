"""The snapshots of a table as a user reads them: DESCRIBE HISTORY, ``Table.history``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.system import SYSTEM_TABLES

_COLUMNS: Final = {
    "version": "snapshot_id",
    "timestamp": "commit_time",
    "operation": "commit_kind",
    "user": "commit_user",
    "schema_id": "schema_id",
    "rows": "total_record_count",
    "rows_added": "delta_record_count",
    "changes": "changelog_record_count",
    "watermark": "watermark",
}
"""Column of the answer → column of ``$snapshots``."""


def snapshot_log(table: DynamicTable, limit: int | None = None) -> pa.Table:
    """One row a snapshot, the newest ``limit`` of them; the newest first. ``rows`` counts the records of all runs."""
    rows = SYSTEM_TABLES.create("snapshots", table).select(list(_COLUMNS.values()))
    newest: pa.Table = rows.to_arrow().rename_columns(list(_COLUMNS)).sort_by([("version", "descending")])
    return newest if limit is None else newest.slice(0, limit)
