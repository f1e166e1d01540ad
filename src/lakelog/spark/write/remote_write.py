"""Batch write on Spark Connect: the server writes and commits, an observation of the plan counts the rows."""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from lakelog.errors import CommitConflict
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.table import ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import NAMES, ROW_KIND_COLUMN
from lakelog.spark.runtime.types import column_of, options_of
from lakelog.spark.write.batch_writer import replaced_files
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts, WrittenRows
from lakelog.table.read.file_scan import Scan

_CONFLICT: Final = re.compile(rf"{re.escape(CommitConflict.__module__)}\.{CommitConflict.__name__}: (.*)")
_ROWS: Final = "rows"


def write_remote(frame: DataFrame, table: DynamicTable, overwrite: bool = False) -> RowCounts:
    """Writes a batch frame, columns by name, by the data source; returns the counts of its rows.

    Called on Spark Connect, whose server has access to the files; this process needs none to write. Raises
    CommitConflict, and Spark's errors.
    """
    files = replaced_files(table) if overwrite else None
    replaced = None if files is None else _rows_of(table, files)
    name = table.schema.options.get(ROWKIND_FIELD.key, ROW_KIND_COLUMN)
    kind = column_of(name) if name in frame.columns else sf.lit(NAMES[0] if files is None else None).cast("string")
    seen = Observation()
    kinds = [sf.count_if(kind.eqNullSafe(sf.lit(text))).alias(text) for text in NAMES]
    observed = frame.observe(seen, sf.count(sf.lit(1)).alias(_ROWS), *kinds)
    mode = "overwrite" if overwrite else "append"
    try:
        observed.write.format("lakelog").options(**options_of(table)).mode(mode).save(table.address)
    except PySparkException as refused:
        conflict = conflict_in(refused)
        if conflict is None:
            raise
        raise conflict from refused
    found = seen.get  # empty if Spark has planned a frame without rows away
    written = WrittenRows(found.get(_ROWS, 0), [found.get(text, 0) for text in NAMES])
    if files is not None:
        return written.in_place_of(replaced)
    return written.as_overwrite if overwrite else written.as_changes


def conflict_in(refused: Exception) -> CommitConflict | None:
    """The conflict inside a Spark error, so that the caller can retry; None for any other error."""
    match = _CONFLICT.search(str(refused))
    return None if match is None else CommitConflict(match[1].strip())


def _rows_of(table: DynamicTable, files: list[str]) -> int | None:
    """The rows in data files, from metadata; None if the number of deleted ones is not in it."""
    if not files:
        return 0
    counts = [split.exact_rows for split in Scan(table.with_hints({SCAN_DATA_FILES.key: ",".join(files)})).plan()]
    return None if None in counts else sum(rows for rows in counts if rows is not None)
