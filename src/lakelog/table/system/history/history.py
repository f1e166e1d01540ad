"""The user-facing snapshots of a table: DESCRIBE HISTORY, ``Table.history``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.system.history.snapshots import AllSnapshots

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
"""Column of the result → column of ``$snapshots``."""


def snapshot_log(table: DynamicTable, limit: int | None = None, before: int | None = None) -> pa.Table:
    """One row per snapshot, the newest first: at most ``limit``, with ids below ``before``; reads no other.

    ``rows`` counts the records of all runs.
    """
    known = AllSnapshots(table)
    ids = sorted((i for i in table.store.snapshots.ids() if before is None or i < before), reverse=True)
    rows: pa.Table = known.table_of(known.rows_of(ids[:limit]))
    return rows.select(list(_COLUMNS.values())).rename_columns(list(_COLUMNS))
