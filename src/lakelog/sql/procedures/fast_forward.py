"""CALL sys.fast_forward."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.procedure import Parameter, Procedure, flag, text
from lakelog.sql.result import done
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.retention import fast_forward


def _run(table: DynamicTable, branch: str, files_only: bool = False) -> pa.Table:
    fast_forward(table, branch, files_only)
    return done()


FAST_FORWARD = Procedure("fast_forward", (Parameter("branch", text, True), Parameter("files_only", flag)), _run)
"""Makes main what a branch is."""
