"""Batch reads at the speed of Spark's own Parquet scan: files that need no merge go to it, the rest to Python workers.

A frame made here reads one snapshot, the newest when it was made. The data source ``lakelog`` itself cannot do this: a
data source in Python gives rows, never a plan.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType
from pyspark.sql.utils import is_remote

from lakelog.filestore.native_files import NativeFile, NativePlan, Sources, is_float, pick_native
from lakelog.filestore.scan import Split
from lakelog.io import scheme_of
from lakelog.spark.hidden_files import hidden_files
from lakelog.spark.live_rows import lay_out, only_live
from lakelog.spark.types import arrow_for_spark, fit, spark_schema
from lakelog.spark.worker import settle
from lakelog.table.scan import Scan

_LOG: Final = logging.getLogger(__name__)
_SCHEMES: Final = ("file", "hdfs", "viewfs")
"""Where Spark finds files without settings of its own."""
_LISTING_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LISTED_HERE: Final = 10_000
"""Files that the driver looks at one by one; for more a Spark job is better."""
_READ_OPTIONS: Final = {
    # the format's days and times are those of today's calendar in all centuries
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # a file of the snapshot that is gone is an error, whatever the session says
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # the paths are names of files, not patterns
    "__globPaths__": "false",
}


@dataclass(frozen=True)
class _SplitRows:
    """What a task runs for the splits that lakelog reads itself: row n of its input is the n-th split. Picklable."""

    scan: Scan
    splits: tuple[Split, ...]
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for rows in self.scan.read(self.splits[number]):
                    yield fit(rows, self.target)


def native_frame(spark: SparkSession, scan: Scan) -> DataFrame | None:
    """A DataFrame of a scan whose files Spark reads itself where it can; None when there are none such.

    Called on the driver for each query. Filters of the scan prune files and rows of splits; the query must have them
    again. Rows that a deletion vector names are left out by a filter on their position.
    """
    table = scan.table
    if scheme_of(table.path) not in _SCHEMES:
        return None
    store = table.store
    plan = pick_native(scan.plan(), scan.schema.names, store.schemas, store.paths)
    if not plan.files or any(scheme_of(f.path) not in _SCHEMES for files in plan.files.values() for f in files):
        return None
    _LOG.debug(
        "table %s: %d files are read by Spark, %d splits by lakelog", table.name, plan.file_count, len(plan.rest)
    )
    parts = _native_parts(spark, scan, plan)
    if plan.rest:
        parts.append(_rest(spark, scan, plan.rest))
    return reduce(DataFrame.unionAll, parts)


def _rest(spark: SparkSession, scan: Scan, splits: tuple[Split, ...]) -> DataFrame:
    schema = spark_schema(scan.schema)
    read = _SplitRows(scan, splits, arrow_for_spark(schema))
    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(read, schema)


def _native_parts(spark: SparkSession, scan: Scan, plan: NativePlan) -> list[DataFrame]:
    found = hidden_files(scan.table.store.files, [f for files in plan.files.values() for f in files])
    parts = []
    for sources, files in plan.files.items():
        whole = [f for f in files if f.meta.file_name not in found]
        if whole:
            parts.append(_selected(_raw(spark, scan, sources, whole), scan, sources))
        some = [f for f in files if f.meta.file_name in found]
        for bits in lay_out([found[f.meta.file_name] for f in some]):
            raw = _raw(spark, scan, sources, [f for f in some if f.meta.file_name in bits.files])
            parts.append(_selected(only_live(raw, spark, bits), scan, sources))
    return parts


def _raw(spark: SparkSession, scan: Scan, sources: Sources, files: Sequence[NativeFile]) -> DataFrame:
    """Spark's scan of files, with the columns as the files name them."""
    types: StructType = spark_schema(scan.schema)
    named = zip(sources, types.fields, strict=True)
    schema = StructType([StructField(source, field.dataType) for source, field in named if source is not None])
    with _looking_here(spark):
        return spark.read.options(**_READ_OPTIONS).schema(schema).parquet(*(f.path for f in files))


@contextlib.contextmanager
def _looking_here(spark: SparkSession) -> Iterator[None]:
    """Has Spark look at the files of a new scan in the driver: a job for that takes longer than the looking."""
    if is_remote():  # the server looks when the frame runs
        yield
        return
    before = spark.conf.get(_LISTING_THRESHOLD, None)
    spark.conf.set(_LISTING_THRESHOLD, str(_LISTED_HERE))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_LISTING_THRESHOLD)
        else:
            spark.conf.set(_LISTING_THRESHOLD, before)


def _selected(raw: DataFrame, scan: Scan, sources: Sources) -> DataFrame:
    types: StructType = spark_schema(scan.schema)
    fields = scan.row_schema.select(scan.schema.names)
    columns = []
    for source, kind, field in zip(sources, types.fields, fields, strict=True):
        column = sf.lit(None).cast(kind.dataType) if source is None else sf.col(_quoted(source))
        columns.append((_guarded(column, kind.dataType) if is_float(field) else column).alias(kind.name))
    return raw.select(*columns)


def _guarded(column: Column, kind: Any) -> Column:
    """The same float, but no filter on it reaches the file: statistics of a Parquet file leave NaN out."""
    return sf.nanvl(column, sf.lit(float("nan")).cast(kind))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
