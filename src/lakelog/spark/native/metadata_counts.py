"""How many rows each partition of a table has, from metadata where that is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.filestore.read.plan import Split
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.spark.runtime.types import arrow_for_spark, column_of, conform, frame_of, spark_schema
from lakelog.sql.runtime.query_plan import COUNTED
from lakelog.table.read.file_scan import Scan

ReadSplits = Callable[[Scan, Sequence[Split]], DataFrame]


def counted(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of a frame for each value of its columns ``keys``, in ``COUNTED``; nothing for no rows."""
    counts = frame.groupBy(*map(column_of, keys)).agg(sf.count(sf.lit(1)).alias(COUNTED))
    return counts if keys else counts.where(sf.col(COUNTED) > 0)


def counted_splits(spark: SparkSession, scan: Scan, keys: Sequence[str], read: ReadSplits) -> DataFrame:
    """The rows of a scan for each value of partition columns, in ``COUNTED``.

    Called for ``count(*)``. Splits that need no merge are counted by their metadata, the others are read.
    """
    known: Counter[bytes] = Counter()
    rest: list[Split] = []
    for split in scan.plan():
        rows = split.exact_rows
        if rows is None:
            rest.append(split)
        elif rows:
            known[split.partition] += rows
    frame = _known(spark, scan.row_schema, keys, known)
    if not rest:
        return frame
    columns = tuple(keys) or (scan.row_schema.primary_keys or scan.row_schema.field_names)[:1]
    return frame.unionByName(counted(read(scan.select(columns), rest), keys))


def _known(spark: SparkSession, schema: TableSchema, keys: Sequence[str], counts: Counter[bytes]) -> DataFrame:
    at = [schema.partition_keys.index(key) for key in keys]
    values = [decode_partition(partition, schema) for partition in counts]
    types = arrow_schema(schema.select(keys))
    columns = [
        pa.array([row[place] for row in values], types.field(key).type) for place, key in zip(at, keys, strict=True)
    ]
    rows = pa.record_batch([*columns, pa.array(list(counts.values()), pa.int64())], names=[*keys, COUNTED])
    whole = spark_schema(pa.schema([*types, pa.field(COUNTED, pa.int64())]))
    target = arrow_for_spark(whole)
    return frame_of(spark, pa.Table.from_batches([conform(rows, target)]), whole)
