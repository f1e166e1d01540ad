"""What users give to be written or read beside tables, made to fit: rows of this process, the columns of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from lakelog.errors import InvalidSchema
from lakelog.io.names import new_uuid
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.runtime.types import column_of, frame_of, spark_schema
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.table_writer import batches_of


def arrow_rows(rows: Any) -> pa.Table:
    """Rows of this process as one Arrow table. Raises InvalidRequest for what has no columns."""
    found = batches_of(rows)
    if isinstance(found, pa.RecordBatchReader):
        return found.read_all()
    return rows if isinstance(rows, pa.Table) else pa.Table.from_batches(found)


def align_columns(frame: DataFrame, table: DynamicTable, columns: tuple[str, ...] | None) -> DataFrame:
    """The frame's columns renamed to the table's, in order, and cast to their types.

    Called for INSERT … SELECT; ``columns`` are those of the table that the query gives, None for all. A last column
    ``_row_kind`` stays. Raises InvalidSchema for another number of columns.
    """
    wanted = list(columns or table.schema.field_names)
    given = frame.columns
    kind = [ROW_KIND_COLUMN] if given and given[-1] == ROW_KIND_COLUMN and ROW_KIND_COLUMN not in wanted else []
    if len(given) - len(kind) != len(wanted):
        raise InvalidSchema(
            f"the query has {len(given) - len(kind)} columns ({', '.join(given)}), but table {table.name} "
            f"takes {len(wanted)} ({', '.join(wanted)})"
        )
    types: StructType = spark_schema(Scan(table).schema)
    named = frame.toDF(*wanted, *kind)
    cast = [column_of(name).cast(types[name].dataType).alias(name) for name in wanted]
    return named.select(*cast, *(sf.col(k) for k in kind))


@contextmanager
def checkpointed_rows(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows of a frame as they are now, in the executors' memory and disks until the block ends.

    Unlike those of ``persist`` they are never computed again, perhaps to others: what reads them fails when they are
    lost. On Connect the server lets them go when the client has forgotten the frame.
    """
    kept = frame.localCheckpoint()
    try:
        yield kept
    finally:
        if not is_remote():
            kept._jdf.queryExecution().analyzed().rdd().unpersist(False)


@contextmanager
def named_views(spark: SparkSession, frames: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Temporary views of DataFrames and Arrow rows while the block runs: name → view."""
    views = {name: f"lakelog_frame_{new_uuid().replace('-', '')}" for name in frames}
    for name, given in frames.items():
        frame = given if isinstance(given, DataFrame) else frame_of(spark, arrow_rows(given))
        frame.createOrReplaceTempView(views[name])
    try:
        yield views
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)
