"""CALL sys.rename_tag."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, tag: str, target_tag: str) -> pa.Table:
    table.store.tags.rename(tag, target_tag)
    return done_result()


RENAME_TAG = Procedure("rename_tag", (Parameter("tag", text, True), Parameter("target_tag", text, True)), _run)
"""Gives a tag another name."""
