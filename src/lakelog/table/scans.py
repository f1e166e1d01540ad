"""The read that a name and its options mean: the table, a point in its past, its changes, or a system table."""

from __future__ import annotations

from datetime import datetime

from lakelog.errors import InvalidRequest
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN,
    SCAN_SNAPSHOT,
    SCAN_TAG,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.base import TableScan
from lakelog.table.read.changes_scan import changes_of_options
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import as_of, millis_of, travel_to
from lakelog.table.read.union_scan import union_scan
from lakelog.table.system import SYSTEM_TABLES


def scan_of(table: DynamicTable) -> TableScan:
    """The batch read of a table, branch or system table as the options of this use say.

    Time travel shows the columns of that time. Raises NotFound, InvalidOption.
    """
    if table.view is not None:
        return SYSTEM_TABLES.create(table.view, table)
    changes = changes_of_options(table)
    if changes is not None:
        return changes
    snapshot = travel_to(table.store, table.options)
    if snapshot is None and table.reads_union and table.branch == MAIN_BRANCH:  # a branch has no log
        return union_scan(table)
    return Scan(table) if snapshot is None else Scan(as_of(table, snapshot), snapshot=snapshot)


def hints_of(
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: int | str | datetime | None = None,
    incremental_between: tuple[int | str, int | str] | None = None,
) -> dict[str, str]:
    """The arguments of ``Table.scan`` as the options that mean the same. Raises InvalidRequest for two at once."""
    points = {
        SCAN_SNAPSHOT.key: None if snapshot_id is None else str(snapshot_id),
        SCAN_TAG.key: tag,
        SCAN_TIMESTAMP_MILLIS.key: None if timestamp is None else str(millis_of(timestamp)),
        INCREMENTAL_BETWEEN.key: None if incremental_between is None else ",".join(map(str, incremental_between)),
    }
    given = {key: value for key, value in points.items() if value is not None}
    if len(given) > 1:
        raise InvalidRequest("give one of snapshot_id, tag, timestamp and incremental_between, not several")
    return given
