"""CALL sys.rollback_to_timestamp."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, number
from lakelog.sql.runtime.statement import counts_row
from lakelog.table.maintenance.retention import roll_back
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, timestamp: int) -> pa.Table:
    newest = table.store.latest_snapshot()
    target = roll_back(table, timestamp_ms=timestamp)
    return counts_row({"previous_snapshot_id": None if newest is None else newest.id, "current_snapshot_id": target.id})


ROLLBACK_TO_TIMESTAMP = Procedure("rollback_to_timestamp", (Parameter("timestamp", number, True),), _run)
"""Makes the newest state at or before a time, in milliseconds since 1970, the newest."""
