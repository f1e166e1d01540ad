"""CALL sys.fast_forward."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, flag, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.restore import fast_forward


def _run(table: DynamicTable, branch: str, files_only: bool = False) -> pa.Table:
    fast_forward(table, branch, files_only)
    return done_result()


FAST_FORWARD = Procedure("fast_forward", (Parameter("branch", text, True), Parameter("files_only", flag)), _run)
"""Fast-forwards main to a branch."""
