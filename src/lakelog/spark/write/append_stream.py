"""Streaming writes: by the data source, or by ``foreachBatch`` where Spark has no Python sink for the rows."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from lakelog.errors import UnsupportedFeature
from lakelog.spark.compat.arrow import map_in_arrow
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.runtime.types import arrow_for_spark, stream_options_of
from lakelog.spark.write.stream_writer import LakelogStreamWriter
from lakelog.table.model.dynamic_table import DynamicTable

_MESSAGE: Final = StructType([StructField("message", BinaryType())])


def start_append(table: DynamicTable, frame: DataFrame, checkpoint: str) -> Any:
    """Starts a query that appends the rows of a frame; returns the StreamingQuery. Raises Spark's refusal."""
    if not DATA_SOURCES:
        return each_batch(table, frame, checkpoint).outputMode("append").start()
    writer = frame.writeStream.format("lakelog").options(**stream_options_of(table))
    return writer.option("checkpointLocation", checkpoint).outputMode("append").start(table.address)


def each_batch(table: DynamicTable, frame: DataFrame, checkpoint: str) -> Any:
    """A writer of each micro-batch as one epoch: its tasks write one attempt each, and this process commits them."""
    what = f"this stream into table {table.name}"
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise UnsupportedFeature(
            f"{what} needs the ids that Spark gives to the thread of a query: start Python without PYSPARK_PIN_THREAD"
        )
    table.check_rows_writable()
    sink = LakelogStreamWriter(table, arrow_for_spark(frame.schema), overwrite=False)

    def attempts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"message": [pickle.dumps(sink.write(batches))]})

    def write(batch: DataFrame, epoch: int) -> None:
        messages = map_in_arrow(batch, attempts, _MESSAGE).collect()
        if not messages:  # a frame without tasks, which is an epoch without rows
            one = batch.sparkSession.range(0, 1, 1, 1)
            messages = map_in_arrow(one, lambda _: attempts(iter(())), _MESSAGE).collect()
        sink.commit_epoch([pickle.loads(row.message) for row in messages], epoch)

    return frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
