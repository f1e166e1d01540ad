"""CALL sys.create_tag_from_timestamp."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, duration, number, text
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.time_travel import snapshot_at_time


def _run(table: DynamicTable, tag: str, timestamp: int, time_retained: timedelta | None = None) -> pa.Table:
    snapshot = snapshot_at_time(table.store, timestamp)
    table.store.tags.create(tag, snapshot.id, time_retained)
    return pa.table(
        {
            "tagName": [tag],
            "snapshot": pa.array([snapshot.id], pa.int64()),
            "commit_time": pa.array([snapshot.time_millis], pa.int64()),
            "watermark": pa.array([None if snapshot.watermark is None else str(snapshot.watermark)], pa.string()),
        }
    )


CREATE_TAG_FROM_TIMESTAMP = Procedure(
    "create_tag_from_timestamp",
    (Parameter("tag", text, True), Parameter("timestamp", number, True), Parameter("time_retained", duration)),
    _run,
)
"""Names the newest snapshot at or before a time, in milliseconds since 1970."""
