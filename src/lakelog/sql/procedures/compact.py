"""CALL sys.compact."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.procedure import Parameter, Procedure, flag
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.maintenance import compact_where_needed


def _run(table: DynamicTable, full: bool = True) -> pa.Table:
    made = compact_where_needed(table, full)
    return pa.table({"snapshot_id": pa.array([made.id] if made else [], pa.int64())})


COMPACT = Procedure("compact", (Parameter("full", flag),), _run)
"""Merges the files of every bucket; with ``full => false`` only where there are too many."""
