"""Reads of a Spark without Python data sources: tasks of ``mapInArrow``, one for each part of a plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from lakelog.filestore.read.plan import Split
from lakelog.io.shared_counts import counts_directory
from lakelog.options.log import STREAMING
from lakelog.spark.compat.arrow import frame_of_rows, map_in_arrow, to_arrow
from lakelog.spark.compat.partition_ids import by_partition_id
from lakelog.spark.compat.sources import InputPartition
from lakelog.spark.read.batch_reader import LakelogReader, SplitPartition
from lakelog.spark.runtime.worker import prepare_worker
from lakelog.table.model.dynamic_table import DynamicTable

TASKS_OF: Final = "lakelog-read:"
"""The name of the tasks' function in Spark's plan begins so; the name of the frame follows."""
_PARTS: Final = StructType([StructField("task", IntegerType()), StructField("part", BinaryType())])

ReadPart = Callable[[Any], Iterator[pa.RecordBatch]]
"""Reads a part of a plan, in a task."""


def task_frame(
    spark: SparkSession,
    table: DynamicTable,
    schema: StructType,
    splits: Sequence[Split] | None = None,
    relation: str | None = None,
) -> DataFrame:
    """A frame of a table's rows, the newest ones on each run, or those of ``splits``.

    Without ``splits`` a first task plans, and as many tasks read as the session has slots. The table has the options of
    the read. ``relation`` names the frame in Spark's plan.
    """
    table = table.with_hints({STREAMING.key: "false"}) if table.reads_log else table
    reader = LakelogReader(table, schema)
    name = f"{TASKS_OF}{relation}" if relation else None
    if splits is not None:
        return frame_of_parts(spark, [SplitPartition(split) for split in splits], reader.read, schema, name)
    slots, counts = max(spark.sparkContext.defaultParallelism, 1), counts_directory()

    def planned(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker(counts)
        yield _packed(reader.partitions(), slots)

    return _read(map_in_arrow(spark.range(0, 1, 1, 1), planned, _PARTS), slots, reader.read, schema, name)


def frame_of_parts(
    spark: SparkSession, parts: Sequence[InputPartition], read: ReadPart, schema: StructType, name: str | None = None
) -> DataFrame:
    """A frame of the rows of some parts; each is a task. ``name`` is that of the tasks' function in Spark's plan."""
    tasks = max(len(parts), 1)
    packed = frame_of_rows(spark, pa.Table.from_batches([_packed(parts, tasks)]), _PARTS)
    return _read(packed, tasks, read, schema, name)


def _read(packed: DataFrame, tasks: int, read: ReadPart, schema: StructType, name: str | None) -> DataFrame:
    counts = counts_directory()

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker(counts)
        for batch in batches:
            for part in batch.column("part"):
                yield from read(pickle.loads(part.as_py()))

    return map_in_arrow(by_partition_id(packed, tasks, sf.col("task")), rows, schema, name)


def _packed(parts: Sequence[InputPartition], tasks: int) -> pa.RecordBatch:
    """The parts with the task that reads each one."""
    numbers = [at % tasks for at in range(len(parts))]
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(map(pickle.dumps, parts), pa.binary())], schema=to_arrow(_PARTS)
    )
