"""CALL sys.replay_rejected."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Procedure
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.replay_rejected import replay_rejected


def _run(table: DynamicTable) -> pa.Table:
    done = replay_rejected(table)
    return pa.table({"written_rows": pa.array([done.written]), "rejected_rows": pa.array([done.rejected])})


REPLAY_REJECTED = Procedure("replay_rejected", (), _run)
"""Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once."""
