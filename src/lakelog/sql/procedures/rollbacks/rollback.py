"""CALL sys.rollback."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidRequest
from lakelog.sql.runtime.procedure import Parameter, Procedure, flag, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.restore import roll_back


def _run(
    table: DynamicTable,
    version: str | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    files_only: bool = False,
) -> pa.Table:
    if version is not None:
        if snapshot is not None or tag is not None:
            raise InvalidRequest("a version is a snapshot or a tag: give one of version, snapshot and tag")
        tag, snapshot = (None, int(version)) if version.isdecimal() else (version, None)  # no tag is a number
    roll_back(table, snapshot, tag, files_only=files_only)
    return done_result()


ROLLBACK = Procedure(
    "rollback",
    (
        Parameter("version", text),
        Parameter("snapshot", number),
        Parameter("tag", text),
        Parameter("files_only", flag),
    ),
    _run,
)
"""Makes an older state the newest, of a snapshot or a tag, as Apache Paimon's procedure of this name."""
