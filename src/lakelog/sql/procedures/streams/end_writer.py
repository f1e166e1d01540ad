"""CALL sys.end_writer."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, text
from lakelog.table.commit.take_over import end_writer
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, writer: str) -> pa.Table:
    snapshot = end_writer(table, writer)
    return pa.table({"snapshot_id": pa.array([None if snapshot is None else snapshot.id], pa.int64())})


END_WRITER = Procedure("end_writer", (Parameter("writer", text, True),), _run)
"""Ends a streaming writer whose query never restarts: aborts its open micro-batch and rejects its later writes."""
