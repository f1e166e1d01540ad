"""CALL sys.replace_tag."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, duration, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(
    table: DynamicTable, tag: str, snapshot: int | None = None, time_retained: timedelta | None = None
) -> pa.Table:
    table.store.tags.replace(tag, snapshot, time_retained)
    return done_result()


REPLACE_TAG = Procedure(
    "replace_tag",
    (Parameter("tag", text, True), Parameter("snapshot", number), Parameter("time_retained", duration)),
    _run,
)
"""Lets a tag name another snapshot, by default the newest."""
