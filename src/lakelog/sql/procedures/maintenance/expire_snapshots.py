"""CALL sys.expire_snapshots."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.options.retention import RETENTION_OPTIONS
from lakelog.sql.runtime.procedure import Parameter, Procedure, age, number, options_among
from lakelog.table.maintenance.retention import expire_snapshots
from lakelog.table.model.dynamic_table import DynamicTable


def _run(
    table: DynamicTable,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than: timedelta | None = None,
    max_deletes: int | None = None,
) -> pa.Table:
    expired = expire_snapshots(table, retain_max, retain_min, older_than, max_deletes)
    return pa.table({"deleted_snapshots_count": pa.array([len(expired)], pa.int64())})


EXPIRE_SNAPSHOTS = Procedure(
    "expire_snapshots",
    (
        Parameter("retain_max", number),
        Parameter("retain_min", number),
        Parameter("older_than", age),
        Parameter("max_deletes", number),
        Parameter("options", options_among(RETENTION_OPTIONS)),
    ),
    _run,
)
"""Removes old snapshots, by the table's options where nothing else is given."""
