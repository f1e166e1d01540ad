"""CALL sys.rollback."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.sql.runtime.procedure import Parameter, Procedure, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.maintenance.retention import roll_back
from lakelog.table.model.dynamic_table import DynamicTable


def _run(
    table: DynamicTable, version: str | None = None, snapshot: int | None = None, tag: str | None = None
) -> pa.Table:
    if version is not None:
        if snapshot is not None or tag is not None:
            raise InvalidRequest("a version is a snapshot or a tag: give one of version, snapshot and tag")
        is_tag = table.store.tags.exists(version) or not version.isdecimal()
        tag, snapshot = (version, None) if is_tag else (None, int(version))
    roll_back(table, snapshot, tag)
    return done_result()


ROLLBACK = Procedure(
    "rollback", (Parameter("version", text), Parameter("snapshot", number), Parameter("tag", text)), _run
)
"""Makes an older state the newest, of a snapshot or a tag, as Apache Paimon's procedure of this name."""
