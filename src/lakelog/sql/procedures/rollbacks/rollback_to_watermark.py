"""CALL sys.rollback_to_watermark."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, flag, number
from lakelog.sql.runtime.statement import counts_row
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.time_travel import snapshot_at_watermark
from lakelog.table.write.restore import roll_back


def _run(table: DynamicTable, watermark: int, files_only: bool = False) -> pa.Table:
    newest = table.store.latest_snapshot()
    target = roll_back(table, snapshot_at_watermark(table.store, watermark).id, files_only=files_only)
    return counts_row({"previous_snapshot_id": None if newest is None else newest.id, "current_snapshot_id": target.id})


ROLLBACK_TO_WATERMARK = Procedure(
    "rollback_to_watermark", (Parameter("watermark", number, True), Parameter("files_only", flag)), _run
)
"""Makes the first state with a watermark or a later one the newest; in milliseconds."""
