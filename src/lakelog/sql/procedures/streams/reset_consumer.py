"""CALL sys.reset_consumer."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.log.register import NamedReaders
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, consumer_id: str, next_snapshot_id: int | None = None) -> pa.Table:
    consumers = table.store.consumers
    if next_snapshot_id is None:
        was_reader = NamedReaders(table.io, table.path).delete(consumer_id)
        if not was_reader or consumers.position(consumer_id) is not None:
            consumers.delete(consumer_id)
    else:
        consumers.record(consumer_id, next_snapshot_id)
    return done_result()


RESET_CONSUMER = Procedure(
    "reset_consumer", (Parameter("consumer_id", text, True), Parameter("next_snapshot_id", number)), _run
)
"""Moves a consumer to a snapshot; without a snapshot, deletes it, also as a named reader of the log."""
