"""Tables with cached rows in a session (CACHE TABLE), always current for a query; and counts from metadata."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.errors import InvalidRequest, UnsupportedFeature
from lakelog.filestore.read.plan import Split
from lakelog.io.names import new_uuid
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.spark.runtime.types import arrow_for_spark, column_of, conform, frame_of, spark_schema
from lakelog.sql.runtime.query_plan import COUNTED
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan

MakeFrame = Callable[[Scan, Sequence[Split]], DataFrame]
"""Creates a frame of exactly these splits."""


@dataclass(frozen=True)
class _CachedTable:
    """The cached rows of a table's splits; None until the first query plans them."""

    level: StorageLevel
    scan: Scan | None = None
    splits: tuple[Split, ...] = ()
    frame: DataFrame | None = None

    def holds(self, scan: Scan, splits: tuple[Split, ...]) -> bool:
        """True if it has these rows and columns, merged by the same options, which may change without a snapshot."""
        return self.scan is not None and self.scan.table.schema == scan.table.schema and self.splits == splits

    def release(self) -> None:
        """Releases the memory; a concurrent query continues without it."""
        if self.frame is not None:
            self.frame.unpersist()


class CachedTables:
    """The cached tables of a session. Thread-safe.

    Spark's own cache would return the rows at the time of CACHE TABLE. Here each query plans the table from metadata as
    usual. If the table has not changed, its rows are read from memory; otherwise they are read and cached again.
    """

    def __init__(self, make: MakeFrame) -> None:
        self._make = make
        self._cached: dict[str, _CachedTable] = {}
        self._lock = threading.Lock()

    def cache(self, scan: TableScan, level: str) -> DataFrame:
        """Caches the rows of a table from its next query on; returns a frame of them that has not run.

        ``level`` is a name of Spark's StorageLevel. Raises InvalidRequest for another one, UnsupportedFeature for
        anything but a plain read of the newest files.
        """
        if not _is_plain(scan):
            raise UnsupportedFeature(
                f"CACHE TABLE of {scan.table.name}: only the newest snapshot of a table can be cached by name. For "
                "other reads, write CACHE TABLE … AS SELECT …"
            )
        known = {n: v for n, v in vars(StorageLevel).items() if isinstance(v, StorageLevel) and n != "NONE"}
        if level.upper() not in known:
            raise InvalidRequest(f"unknown storageLevel '{level}'; Spark has: {', '.join(sorted(known))}")
        self.uncache(scan.table.address)
        with self._lock:
            self._cached[scan.table.address] = _CachedTable(known[level.upper()])
        frame = self.frame(scan)
        return self.cache(scan, level) if frame is None else frame  # None: another thread has released it

    def uncache(self, address: str | None) -> None:
        """Releases the rows of a table and its branches, of all tables without an address; others stay."""
        with self._lock:
            given_up = [
                one for one in self._cached if address is None or one == address or one.startswith(f"{address}$")
            ]
            frames = [self._cached.pop(one) for one in given_up]
        for kept in frames:
            kept.release()

    def keep_catalogs(self, names: Collection[str]) -> None:
        """Releases the rows of tables in other catalogs than these."""
        with self._lock:
            scans = {address: kept.scan for address, kept in self._cached.items() if kept.scan is not None}
        for address, scan in scans.items():
            if scan.table.location.identifier.catalog not in names:
                self.uncache(address)

    def frame(self, scan: TableScan) -> DataFrame | None:
        """The columns of a scan from memory, or to be cached on read; None for a table that is not cached."""
        if scan.table.address not in self._cached or not _is_plain(scan):
            return None
        assert isinstance(scan, Scan)
        scan_of_all = replace(scan, columns=None, filter=None)
        splits = tuple(scan_of_all.plan())
        with self._lock:
            kept = self._cached.get(scan.table.address)
            if kept is None:
                return None
            if not kept.holds(scan_of_all, splits):
                kept.release()
                # Spark caches equal plans once; a release by one table would affect another with the same rows.
                own = sf.expr(f"'{new_uuid()}' <> ''")
                frame = self._make(scan_of_all, splits).where(own).persist(kept.level)
                kept = self._cached[scan.table.address] = _CachedTable(kept.level, scan_of_all, splits, frame)
        assert kept.frame is not None
        # Dropping a view also drops Spark's cached rows of its plan, so no view may have exactly this plan.
        every = kept.frame.where(sf.lit(True))
        chosen = every if scan.columns is None else every.select(*map(column_of, scan.schema.names))
        return chosen.toDF(*chosen.columns)  # separate columns for each use, as in all frames of a table


def _is_plain(scan: TableScan) -> bool:
    return isinstance(scan, Scan) and scan.snapshot is None and not scan.table.hints


ReadSplits = Callable[[Scan, Sequence[Split]], DataFrame]


def counted(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The row count of a frame for each value of its columns ``keys``, in ``COUNTED``; no result for no rows."""
    counts = frame.groupBy(*map(column_of, keys)).agg(sf.count(sf.lit(1)).alias(COUNTED))
    return counts if keys else counts.where(sf.col(COUNTED) > 0)


def counted_splits(spark: SparkSession, scan: Scan, keys: Sequence[str], read: ReadSplits) -> DataFrame:
    """The row count of a scan for each value of partition columns, in ``COUNTED``.

    Called for ``count(*)``. Splits that need no merge are counted from metadata, the others are read.
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
        pa.array([row[position] for row in values], types.field(key).type)
        for position, key in zip(at, keys, strict=True)
    ]
    rows = pa.record_batch([*columns, pa.array(list(counts.values()), pa.int64())], names=[*keys, COUNTED])
    whole = spark_schema(pa.schema([*types, pa.field(COUNTED, pa.int64())]))
    target = arrow_for_spark(whole)
    return frame_of(spark, pa.Table.from_batches([conform(rows, target)]), whole)
