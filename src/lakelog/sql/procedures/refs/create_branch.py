"""CALL sys.create_branch."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, number, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, branch: str, tag: str | None = None, snapshot: int | None = None) -> pa.Table:
    table.store.branches.create(branch, tag, snapshot)
    return done_result()


CREATE_BRANCH = Procedure(
    "create_branch", (Parameter("branch", text, True), Parameter("tag", text), Parameter("snapshot", number)), _run
)
"""Makes a branch from a tag or a snapshot, or an empty one."""
