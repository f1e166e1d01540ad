"""Compacts buckets on Spark's executors: each pack of buckets is a job of one task, so its results come at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from lakelog.spark.worker import settle
from lakelog.table.compaction_task import BucketOutcome, BucketTask, compact_bucket
from lakelog.table.dynamic_table import DynamicTable


@dataclass(frozen=True)
class SparkExecutor:
    """Runs tasks on the executors of a session, ``slots`` calls at once from threads of the driver.

    A task that dies with its executor is repeated by Spark: what it wrote is named by nobody then.
    """

    spark: SparkSession
    slots: int

    def run(self, table: DynamicTable, tasks: Sequence[BucketTask]) -> list[BucketOutcome]:
        """Compacts buckets one after the other in one task, commits nothing. Raises what Spark raises for the task."""

        def compacted(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            settle()
            for task in tasks:
                yield pa.RecordBatch.from_pydict({"outcome": [pickle.dumps(compact_bucket(table, task))]})

        rows = self.spark.range(0, 1, 1, 1).mapInArrow(compacted, "outcome binary").collect()
        return [pickle.loads(row.outcome) for row in rows]


def spark_executor(spark: SparkSession) -> SparkExecutor:
    """The executors of a session, classic or Connect, with as many slots as it has by default."""
    if not is_remote():
        return SparkExecutor(spark, max(2, spark.sparkContext.defaultParallelism))
    # Connect does not tell; a range has as many partitions
    last = spark.range(10_000).agg(sf.max(sf.spark_partition_id())).collect()[0][0]
    return SparkExecutor(spark, max(2, int(last) + 1))
