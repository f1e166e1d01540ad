"""Clusters the rows of a table without a primary key by columns, so that filters on them open few files."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType

from lakelog.options.table import WRITE_SHUFFLE
from lakelog.spark.compat.arrow import collected, with_arrow_column
from lakelog.spark.runtime.types import column_of
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.spark.write.shuffle import shuffled
from lakelog.table.write.clustering import ORDER, ClusteringJob, ZOrder

_CURVE_COLUMN: Final = "_lakelog_place"
_SAMPLE: Final = 100_000
"""Number of sample rows from which the driver learns the distribution of values; each column takes some megabytes."""


def clustered(frame: DataFrame, files: ClusteringJob) -> DataFrame:
    """The rows of files in their new layout: partition by partition, clustered by columns.

    Called before they are written. Each task gets a range of about a target file's size; with several fixed buckets the
    rows of a bucket. A Z-order first reads a sample of the columns.
    """
    table, layout = files.table, files.layout
    columns = frame.columns
    by = [column_of(name) for name in layout.columns]
    if layout.strategy != ORDER:
        curve_column = _CURVE_COLUMN
        while curve_column in columns:
            curve_column += "_"
        frame = _with_positions(frame, files, curve_column)
        by = [sf.col(curve_column)]
    order = [*map(column_of, table.schema.partition_keys), *by]
    if table.schema.num_buckets > 1:
        spread = shuffled(frame, table.with_hints({WRITE_SHUFFLE.key: "bucket"}))
    else:
        spread = frame.repartitionByRange(files.new_files, *order)
    return spread.sortWithinPartitions(*order).select(*map(column_of, columns))


def _with_positions(frame: DataFrame, files: ClusteringJob, name: str) -> DataFrame:
    """The frame with one more column: the position of a row on the curve."""
    by = files.layout.columns
    sampled = frame.select(*map(column_of, by))
    if files.row_count > _SAMPLE:
        sampled = sampled.sample(fraction=_SAMPLE / files.row_count, seed=0)
    sample = collected(sampled.limit(2 * _SAMPLE))
    curve = ZOrder.of_sample(sample.columns)

    def positions(*columns: pa.Array) -> pa.Array:
        prepare_worker()
        return curve.positions(columns)

    return with_arrow_column(frame, name, positions, LongType(), by)
