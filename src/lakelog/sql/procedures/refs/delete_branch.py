"""CALL sys.delete_branch."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, branch: str) -> pa.Table:
    for name in branch.split(","):
        table.store.branches.delete(name.strip())
    return done_result()


DELETE_BRANCH = Procedure("delete_branch", (Parameter("branch", text, True),), _run)
"""Deletes branches (several with commas) and the files that only they named."""
