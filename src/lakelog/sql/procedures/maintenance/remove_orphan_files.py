"""CALL sys.remove_orphan_files."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from lakelog.sql.runtime.procedure import Parameter, Procedure, age, flag, ignored
from lakelog.table.maintenance.retention import remove_orphan_files
from lakelog.table.model.dynamic_table import DynamicTable


def _run(table: DynamicTable, older_than: timedelta | None = None, dry_run: bool = False) -> pa.Table:
    found = remove_orphan_files(table, older_than, dry_run)
    if dry_run:
        return pa.table({"orphan_file": pa.array(found.files, pa.string())})
    counts = {"deleted_file_count": [len(found.files)], "deleted_file_total_len_in_bytes": [found.bytes]}
    return pa.table(counts, schema=pa.schema([(name, pa.int64()) for name in counts]))


REMOVE_ORPHAN_FILES = Procedure(
    "remove_orphan_files",
    (
        Parameter("older_than", age),
        Parameter("dry_run", flag),
        Parameter("parallelism", ignored),
        Parameter("mode", ignored),
    ),
    _run,
)
"""Removes files that nothing names and that are older than a day; with ``dry_run`` it only lists them."""
