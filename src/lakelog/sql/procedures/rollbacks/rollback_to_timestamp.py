"""CALL sys.rollback_to_timestamp."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, flag, number
from lakelog.sql.runtime.statement import counts_row
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.restore import roll_back


def _run(table: DynamicTable, timestamp: int, files_only: bool = False) -> pa.Table:
    newest = table.store.latest_snapshot()
    target = roll_back(table, timestamp_ms=timestamp, files_only=files_only)
    return counts_row({"previous_snapshot_id": None if newest is None else newest.id, "current_snapshot_id": target.id})


ROLLBACK_TO_TIMESTAMP = Procedure(
    "rollback_to_timestamp", (Parameter("timestamp", number, True), Parameter("files_only", flag)), _run
)
"""Makes the newest state at or before a time, in milliseconds since 1970, the newest."""
