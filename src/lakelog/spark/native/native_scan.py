"""Batch reads with Spark's own Parquet scan, which reads files that need no merge; Python workers read the rest.

A frame made here reads one snapshot, the newest at its creation. The data source ``lakelog`` itself cannot do this,
because a Python data source returns rows, never a plan.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from cachetools import LRUCache
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType
from pyspark.sql.utils import is_remote

from lakelog.filestore.read.native_files import NativeFile, NativePlan, Sources, is_float, pick_native
from lakelog.filestore.read.plan import Split
from lakelog.filestore.skipping.predicate import equal_values
from lakelog.io import SPARK_SCHEMES, scheme_of
from lakelog.io.storage.file_io import FileIO
from lakelog.options.log import SCAN_FILTER
from lakelog.spark.compat.natives import DATA_SOURCES
from lakelog.spark.native.cached_tables import CachedTables, counted, counted_splits
from lakelog.spark.native.explain import report
from lakelog.spark.native.position_filter import SupersededRowsCache, filter_positions, identity_of, pack_bitmaps
from lakelog.spark.read.batch_reader import RELATION_OPTION, SPLITS_OPTION, splits_text
from lakelog.spark.read.task_frame import task_frame
from lakelog.spark.runtime.types import (
    arrow_for_spark,
    conform,
    frame_of,
    options_of,
    padded,
    quoted,
    scan_schema,
    spark_schema,
)
from lakelog.sql.query.predicate_parser import filtered
from lakelog.sql.runtime.query_plan import Source
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.union_scan import TailSplit

_LOG: Final = logging.getLogger(__name__)
_PATTERN_SIGNS: Final = frozenset("{}[]*?\\")
"""Signs in a path that make Spark read it once per such path of a scan, even if it is declared a name."""
_FEW_ROWS: Final = 32_768
_FEW_BYTES: Final = 16 << 20
_FEW_FILES: Final = 32
"""Maximum number of files that the driver reads faster than Spark plans a scan of them."""
_FEW_KEYS: Final = 64
_LISTING_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MOST_FRAMES: Final = 8
"""Maximum number of cached frames; each may hold 8 MiB of row bits in the JVM."""
_LISTED_HERE: Final = 10_000
"""Maximum number of files that the driver checks one by one; beyond it a Spark job is better."""
_LISTING: Final = threading.Lock()
"""Held while a session setting is changed, because two threads would restore each other's value."""
_READ_OPTIONS: Final = {
    # the format uses the current calendar for dates and times of all centuries
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # a missing file of the snapshot is an error, regardless of the session's setting
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # the paths are names of files, not patterns
    "__globPaths__": "false",
}


def python_frame(
    spark: SparkSession,
    scan: TableScan,
    condition: str | None = None,
    splits: Sequence[Split] | None = None,
    relation: str | None = None,
) -> DataFrame:
    """A frame that Python workers read: the newest state on each run, or the splits of a plan.

    ``condition`` is the scan's filter as text; rows that do not match are dropped. ``relation`` names the frame in
    Spark's plan.
    """
    schema = scan_schema(scan.schema, scan.row_schema)
    if not DATA_SOURCES:
        table = scan.table if condition is None else scan.table.with_hints({SCAN_FILTER.key: condition})
        return task_frame(spark, table, schema, splits, relation)
    options = options_of(scan.table)
    if condition is not None:
        options[SCAN_FILTER.key] = condition
    if splits is not None:
        options[SPLITS_OPTION] = splits_text(splits)
    if relation is not None:
        options[RELATION_OPTION] = relation
    return spark.read.format("lakelog").options(**options).schema(schema).load(scan.table.address)


class FrameCache:
    """The last native frames of a session, by columns and files, because creating one takes a hundred JVM calls.

    A notebook often queries the same snapshot repeatedly. Thread-safe.
    """

    def __init__(self) -> None:
        self._held: LRUCache[object, DataFrame] = LRUCache(_MOST_FRAMES)
        self._lock = threading.Lock()

    def get(self, identity: object) -> DataFrame | None:
        """The frame of these columns and files, None if it is not cached."""
        with self._lock:
            return self._held.get(identity)

    def keep(self, identity: object, frame: DataFrame) -> None:
        """Caches one more frame, and evicts the least recently used one."""
        with self._lock:
            self._held[identity] = frame


@dataclass(frozen=True)
class BatchScanPlanner:
    """Creates the frames of batch queries in a session; caches metadata of immutable files."""

    spark: SparkSession
    hidden: SupersededRowsCache = field(default_factory=SupersededRowsCache)
    frames: FrameCache = field(default_factory=FrameCache)

    @cached_property
    def cached(self) -> CachedTables:
        """The tables with cached rows in the session."""
        return CachedTables(self.of_splits)

    def frame(self, scan: Scan, condition: str | None = None) -> DataFrame:
        """A DataFrame of a scan's columns, read in the fastest way for its plan.

        Called on the driver for each query. ``condition`` is the scan's filter as text; rows that do not match may be
        dropped, and the query must apply it again. A frame of few rows contains them. Another one names the files of
        the newest snapshot, unless workers read all of them; these plan again on each run of the frame.
        """
        kept = self.cached.frame(scan)
        if kept is not None:
            return kept
        scan = filtered(scan, condition)
        return self._of_plan(scan, scan.plan(), condition)

    def _of_plan(self, scan: Scan, splits: Sequence[Split], condition: str | None) -> DataFrame:
        if any(isinstance(split, TailSplit) for split in splits):
            return python_frame(self.spark, scan, condition)
        if is_small(splits, scan):
            _LOG.debug("table %s: %d splits are read by the driver", scan.table.name, len(splits))
            return local_frame(self.spark, scan, splits)
        native = native_frame(self.spark, scan, splits, self.hidden, condition, self.frames)
        return python_frame(self.spark, scan, condition) if native is None else native

    def report(self, scan: TableScan, source: Source, is_read_first: bool) -> str | None:
        """The EXPLAIN report for the read of a table."""
        return report(scan, source, SPARK_SCHEMES, is_small, self.cached.frame(scan) is not None, is_read_first)

    def counts(self, scan: TableScan, keys: Sequence[str], condition: str | None, is_live: bool) -> DataFrame:
        """The row count of a scan for each value of partition columns: current, or, if it ``is_live``, on each run."""
        if is_live or not isinstance(scan, Scan):
            columns = tuple(keys) or scan.row_schema.field_names[:1]
            return counted(python_frame(self.spark, scan.select(columns), condition), keys)
        return counted_splits(self.spark, filtered(scan, condition), keys, self.of_splits)

    def first_rows(self, scan: Scan, limit: int) -> DataFrame:
        """A DataFrame of a scan's columns with at least ``limit`` of its rows, if it has that many.

        Called for a query that takes any rows. If some splits are known to have enough rows, the query skips the others
        and their merge. The driver reads small results.
        """
        kept = self.cached.frame(scan)
        if kept is not None:
            return kept
        splits = scan.plan()
        if any(isinstance(split, TailSplit) for split in splits):
            return self._of_plan(scan, splits, None)
        chosen, rows = [], 0
        for split in sorted(splits, key=lambda split: (split.exact_rows is None, split.file_size)):
            if rows >= limit:
                break
            chosen.append(split)
            rows += split.exact_rows or 0
        return self._of_plan(scan, splits, None) if len(chosen) == len(splits) else self.of_splits(scan, chosen)

    def of_splits(self, scan: Scan, splits: Sequence[Split]) -> DataFrame:
        """A frame of exactly these splits, on every run."""
        if is_small(splits, scan):
            return local_frame(self.spark, scan, splits)
        native = native_frame(self.spark, scan, splits, self.hidden, frames=self.frames)
        return python_frame(self.spark, scan, splits=splits) if native is None else native


def is_small(splits: Sequence[Split], scan: Scan) -> bool:
    """True if a plan has so few keys or small files that reading them here is faster than any job."""
    size = sum(split.file_size + sum(len(run) for run in split.inline_runs) for split in splits)
    if size <= _FEW_BYTES and sum(split.row_count for split in splits) <= _FEW_ROWS:
        return sum(len(split.files) for split in splits) <= _FEW_FILES
    schema = scan.row_schema
    named = [equal_values(scan.filter, key) for key in schema.primary_keys]
    known = [len(values) for values in named if values is not None]
    return schema.is_keyed and len(known) == len(named) and math.prod(known) <= _FEW_KEYS


def local_frame(spark: SparkSession, scan: Scan, splits: Sequence[Split]) -> DataFrame:
    """A frame that contains the rows of splits, read now in the driver."""
    schema = scan_schema(scan.schema, scan.row_schema)
    target = arrow_for_spark(schema)
    rows = [conform(batch, target) for split in splits for batch in scan.read(split)]
    return frame_of(spark, padded(pa.Table.from_batches(rows, target), scan.row_schema), schema)


def native_frame(
    spark: SparkSession,
    scan: Scan,
    splits: Sequence[Split],
    hidden: SupersededRowsCache,
    condition: str | None = None,
    frames: FrameCache | None = None,
) -> DataFrame | None:
    """A DataFrame of splits whose files Spark reads itself where possible; None if there are none.

    A filter on the position drops rows in a deletion vector and rows that a merge would drop. ``condition``, the scan's
    filter as text, is for the splits that Python workers read.
    """
    table = scan.table
    if scheme_of(table.path) not in SPARK_SCHEMES:
        return None
    store = table.store
    plan = pick_native(splits, scan.schema.names, store.schemas, store.paths)
    if not plan.files or not all(spark_can_list(f.path) for files in plan.files.values() for f in files):
        return None
    _LOG.debug(
        "table %s: %d files are read by Spark, %d splits by lakelog", table.name, plan.file_count, len(plan.rest)
    )
    # files merged together share one identity
    natives = {id(f.merged or f): f for files in plan.files.values() for f in files}
    named = tuple((sources, f.path) for sources, files in plan.files.items() for f in files)
    identity = (scan.schema, named, tuple(identity_of(store.files, f) for f in natives.values()))
    native = None if frames is None else frames.get(identity)
    if native is None:
        native = reduce(DataFrame.unionAll, _native_parts(spark, scan, plan, hidden))
        if frames is not None:
            frames.keep(identity, native)
    if frames is not None:  # separate columns for each use: shared ones break joins like `a.x == b.x`
        native = native.toDF(*native.columns)
    return native.unionAll(python_frame(spark, scan, condition, plan.rest)) if plan.rest else native


def spark_can_list(path: str) -> bool:
    """True if Spark's Parquet scan reads the file of this path exactly once."""
    return scheme_of(path) in SPARK_SCHEMES and _PATTERN_SIGNS.isdisjoint(path)


def _native_parts(spark: SparkSession, scan: Scan, plan: NativePlan, hidden: SupersededRowsCache) -> list[DataFrame]:
    positions = hidden.of_files(scan.table.store.files, [f for files in plan.files.values() for f in files])
    parts = []
    for sources, files in plan.files.items():
        whole = [f for f in files if f.meta.file_name not in positions]
        if whole:
            parts.append(_selected(_raw(spark, scan, sources, whole), scan, sources))
        some = [f for f in files if f.meta.file_name in positions]
        for bits in pack_bitmaps([positions[f.meta.file_name] for f in some]):
            raw = _raw(spark, scan, sources, [f for f in some if f.meta.file_name in bits.files])
            parts.append(_selected(filter_positions(raw, spark, bits), scan, sources))
    return parts


def _raw(spark: SparkSession, scan: Scan, sources: Sources, files: Sequence[NativeFile]) -> DataFrame:
    """Spark's scan of files, with the columns named as in the files."""
    types: StructType = scan_schema(scan.schema, scan.row_schema)
    pairs = zip(sources, types.fields, strict=True)
    schema = StructType([StructField(s, kind.dataType, True, kind.metadata) for s, kind in pairs if s is not None])
    with _listing_on_driver(spark):
        paths = (_address(scan.table.io, file.path) for file in files)
        return spark.read.options(**_READ_OPTIONS).schema(schema).parquet(*paths)


def _address(io: FileIO, path: str) -> str:
    """A path for Spark; one without a scheme would refer to its default file system."""
    is_bare = scheme_of(path) == "file" and not path.lower().startswith("file:")
    absolute = io.absolute(path)
    return f"file://{absolute}" if is_bare else path


@contextlib.contextmanager
def _listing_on_driver(spark: SparkSession) -> Iterator[None]:
    """Makes Spark list the files of a new scan in the driver, because a job takes longer than the listing."""
    if is_remote():  # the server lists when the frame runs
        yield
        return
    with _LISTING:
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
    """The scan's columns: their names, and NULL for those missing in the files."""
    types: StructType = spark_schema(scan.schema)
    fields = scan.row_schema.select(scan.schema.names)
    if list(sources) == types.names and not any(is_float(field) for field in fields):
        return raw
    columns = []
    for source, kind, named in zip(sources, types.fields, fields, strict=True):
        if source is None:
            columns.append(sf.lit(None).cast(kind.dataType).alias(kind.name))
            continue
        # one text is one call of the JVM; a float is guarded, so that no filter on it reaches the file: statistics of
        # a Parquet file leave NaN out
        value = quoted(source)
        value = f"nanvl({value}, cast('NaN' as {kind.dataType.simpleString()}))" if is_float(named) else value
        columns.append(sf.expr(f"{value} as {quoted(kind.name)}"))
    return raw.select(*columns)
