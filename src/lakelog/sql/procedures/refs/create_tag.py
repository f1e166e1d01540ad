"""CALL sys.create_tag."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, duration, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(
    table: DynamicTable, tag: str, snapshot: int | None = None, time_retained: timedelta | None = None
) -> pa.Table:
    table.store.tags.create(tag, snapshot, time_retained)
    return done_result()


CREATE_TAG = Procedure(
    "create_tag",
    (Parameter("tag", text, True), Parameter("snapshot", number), Parameter("time_retained", duration)),
    _run,
)
"""Names a snapshot, by default the newest."""
