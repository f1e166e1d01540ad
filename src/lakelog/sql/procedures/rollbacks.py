"""Procedures that make an older state the newest."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.sql.runtime.procedure import flag, number, procedure, text
from lakelog.sql.runtime.statement import counts_row
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.time_travel import snapshot_at_watermark
from lakelog.table.write.restore import roll_back


@procedure(version=text, snapshot=number, tag=text, files_only=flag)
def rollback(
    table: DynamicTable,
    version: str | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    files_only: bool = False,
) -> None:
    """Makes an older state the newest, of a snapshot or a tag, as Apache Paimon's procedure of this name."""
    if version is not None:
        if snapshot is not None or tag is not None:
            raise InvalidRequest("a version is a snapshot or a tag: give one of version, snapshot and tag")
        tag, snapshot = (None, int(version)) if version.isdecimal() else (version, None)  # no tag is a number
    roll_back(table, snapshot, tag, files_only=files_only)


@procedure(snapshot=number, tag=text, timestamp=number, files_only=flag)
def rollback_to(
    table: DynamicTable,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: int | None = None,
    files_only: bool = False,
) -> pa.Table:
    """Makes an older state the newest: of a snapshot, a tag, or a time in milliseconds."""
    target = roll_back(table, snapshot, tag, timestamp, files_only)
    return pa.table({"snapshot_id": pa.array([target.id], pa.int64())})


@procedure(timestamp=number, files_only=flag)
def rollback_to_timestamp(table: DynamicTable, timestamp: int, files_only: bool = False) -> pa.Table:
    """Makes the newest state at or before a time, in milliseconds since 1970, the newest."""
    newest = table.store.latest_snapshot()
    target = roll_back(table, timestamp_ms=timestamp, files_only=files_only)
    return counts_row({"previous_snapshot_id": None if newest is None else newest.id, "current_snapshot_id": target.id})


@procedure(watermark=number, files_only=flag)
def rollback_to_watermark(table: DynamicTable, watermark: int, files_only: bool = False) -> pa.Table:
    """Makes the first state with a watermark or a later one the newest; in milliseconds."""
    newest = table.store.latest_snapshot()
    target = roll_back(table, snapshot_at_watermark(table.store, watermark).id, files_only=files_only)
    return counts_row({"previous_snapshot_id": None if newest is None else newest.id, "current_snapshot_id": target.id})
