"""CALL sys.delete_tag."""

from __future__ import annotations

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, text
from lakelog.sql.runtime.statement import done_result
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, tag: str) -> pa.Table:
    for name in tag.split(","):
        table.store.tags.delete(name.strip())
    return done_result()


DELETE_TAG = Procedure("delete_tag", (Parameter("tag", text, True),), _run)
"""Deletes tags (several with commas) and the files that only they kept."""
