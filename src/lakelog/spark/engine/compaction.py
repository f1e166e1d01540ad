"""Compacts buckets on Spark's executors. Each pack of buckets is a job of one task, so its results arrive at once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.maintenance.compaction_task import BucketOutcome, BucketTask, compact_bucket
from lakelog.table.model.dynamic_table import DynamicTable


@dataclass(frozen=True)
class CompactionPack:
    """The buckets of one Spark task; sent to an executor."""

    table: DynamicTable
    tasks: tuple[BucketTask, ...]

    def outcomes(self) -> list[BucketOutcome]:
        """Compacts the buckets one after the other. Called on the executor."""
        prepare_worker()
        return [compact_bucket(self.table, task) for task in self.tasks]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same as pickled values in a column, the result format of a Spark Connect task."""
        yield pa.RecordBatch.from_pydict({"outcomes": [pickle.dumps(self.outcomes())]})


@dataclass(frozen=True)
class SparkExecutor:
    """Runs tasks on the executors of a session, with ``slots`` parallel calls from threads of the driver.

    If a task dies with its executor, Spark repeats it; its files are then unreferenced.
    """

    spark: SparkSession
    slots: int

    def run(self, table: DynamicTable, tasks: Sequence[BucketTask]) -> list[BucketOutcome]:
        """Compacts buckets one after the other in one task, without commits. Raises Spark's error for the task."""
        return self.run_pack(CompactionPack(table, tuple(tasks)))

    def run_pack(self, pack: CompactionPack) -> list[BucketOutcome]:
        """Runs one pack as a job of one task."""
        if not is_remote():  # mapInArrow would require pandas
            outcomes: list[BucketOutcome] = self.spark.sparkContext.parallelize([pack], 1).flatMap(_outcomes).collect()
            return outcomes
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(lambda _: pack.batches(), "outcomes binary")
        return [outcome for row in frame.collect() for outcome in pickle.loads(row.outcomes)]


def spark_executor(spark: SparkSession) -> SparkExecutor:
    """The executors of a session, classic or Connect, with as many slots as it has by default."""
    if not is_remote():
        return SparkExecutor(spark, max(2, spark.sparkContext.defaultParallelism))
    # Connect does not report it; a range has as many partitions
    numbers = spark.range(10_000).select(sf.spark_partition_id().alias("number"))
    last = numbers.agg(sf.max("number")).collect()[0][0]
    return SparkExecutor(spark, max(2, int(last) + 1))


def _outcomes(pack: CompactionPack) -> list[BucketOutcome]:
    return pack.outcomes()
