"""Streaming reads of a table: by the data source, or by other means where Spark has no Python sources."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakelog.errors import UnsupportedFeature
from lakelog.logstore import log_factory
from lakelog.options.log import DATA_FORMAT, LOG_ADOPT, STARTUP_MODE
from lakelog.options.parts import LOG_FORMATS
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.read.micro_batches import MicroBatches
from lakelog.spark.realtime.realtime import read_changes
from lakelog.spark.runtime.types import spark_schema, stream_options_of
from lakelog.spark.session.data_source import check_streams
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.read.file_stream import FileStream
from lakelog.table.tail.normalizer import normalizes

_STARTS = ("latest", "earliest", "timestamp", "specific-offsets")
"""Values of ``scan.startup.mode`` that Spark's own Kafka source has, too."""


def stream_of(spark: SparkSession, table: DynamicTable, columns: tuple[str, ...] | None) -> Any:
    """A streaming DataFrame of the log (``read.mode`` = log) or of the files' changes, with ``_row_kind``.

    A Spark without Python sources reads a log on Kafka by its own source, if that can do what the options ask for. Any
    other read there is ``MicroBatches``.
    """
    named = None if columns is None else tuple(c for c in columns if c != ROW_KIND_COLUMN)
    if table.reads_log:
        check_streams(table)
        schema = LogScan(table, named).schema
    else:
        schema = FileStream(table).select(None if named is None else (*named, ROW_KIND_COLUMN)).schema
    if DATA_SOURCES:
        reader = spark.readStream.format("lakelog").options(**stream_options_of(table)).schema(spark_schema(schema))
        return reader.load(table.address)
    if table.reads_log and _is_kafka(table):
        return read_changes(spark, table, named)
    return MicroBatches(spark, table, spark_schema(schema))


def in_sql(stream: Any, table: DynamicTable) -> DataFrame:
    """The stream as a DataFrame of a statement. Raises UnsupportedFeature for ``MicroBatches``."""
    if isinstance(stream, DataFrame):
        return stream
    raise UnsupportedFeature(
        f"a stream of table {table.name} in SQL needs Spark {DATA_SOURCES.text}, because older ones have no Python "
        f"data sources: write lake.read_stream('{table.name}', options).foreach_batch(function, checkpoint)"
    )


def _is_kafka(table: DynamicTable) -> bool:
    """True if Spark's own Kafka source, and its own functions, give the changes that the options of a read ask for."""
    log = table.log
    if log is None or not log_factory(log.system).speaks_kafka or table.options.need(LOG_ADOPT):
        return False
    return (
        LOG_FORMATS.load(table.options.need(DATA_FORMAT)).spark_decodes
        and table.options.need(STARTUP_MODE) in _STARTS
        and not normalizes(table)
        and not LogScan(table).is_transactional
    )
