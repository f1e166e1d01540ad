"""CALL sys.rollback_to."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, flag, number, text
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.restore import roll_back


def _run(
    table: DynamicTable,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: int | None = None,
    files_only: bool = False,
) -> pa.Table:
    target = roll_back(table, snapshot, tag, timestamp, files_only)
    return pa.table({"snapshot_id": pa.array([target.id], pa.int64())})


ROLLBACK_TO = Procedure(
    "rollback_to",
    (
        Parameter("snapshot", number),
        Parameter("tag", text),
        Parameter("timestamp", number),
        Parameter("files_only", flag),
    ),
    _run,
)
"""Makes an older state the newest: of a snapshot, a tag, or a time in milliseconds."""
