"""CALL sys.reset_consumer."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, consumer_id: str, next_snapshot_id: int | None = None) -> pa.Table:
    if next_snapshot_id is None:
        table.store.consumers.delete(consumer_id)
    else:
        table.store.consumers.record(consumer_id, next_snapshot_id)
    return done_result()


RESET_CONSUMER = Procedure(
    "reset_consumer", (Parameter("consumer_id", text, True), Parameter("next_snapshot_id", number)), _run
)
"""Moves a consumer to a snapshot; without a snapshot, deletes it."""
