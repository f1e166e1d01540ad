"""Reads and queries of lakelog tables in a Spark session, and all other statements of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructType
from pyspark.sql.utils import is_remote

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, NotFound
from lakelog.logstore import LOG_SYSTEMS
from lakelog.options.lookup import LOOKUP_SHUFFLE
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.types.types import DataType
from lakelog.spark.compat.failures import condition_of, job_failures, newer_syntax
from lakelog.spark.engine.input_frames import TempViews, named_views
from lakelog.spark.engine.kind_use import has_kinds, netted_rows, unused_kinds
from lakelog.spark.engine.plan_nodes import streams_changes
from lakelog.spark.engine.retraction_check import check_retractions
from lakelog.spark.engine.stream_reads import in_sql, stream_of
from lakelog.spark.lookup.join import lookup_frame
from lakelog.spark.native.explain import with_reports
from lakelog.spark.native.join_pruning import PrunedSources, SmallTable, prune
from lakelog.spark.native.native_scan import BatchScanPlanner, python_frame
from lakelog.spark.runtime.arrow_rows import arrow_rows
from lakelog.spark.runtime.types import checks_casts, columns_of, spark_schema
from lakelog.spark.session.attach import spark_sql
from lakelog.spark.session.attached_names import spark_only
from lakelog.spark.session.data_source import check_streams
from lakelog.spark.session.session import any_session, is_spread, register
from lakelog.sql.query.scalar_subqueries import folded
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.open import scan_of
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import SESSION_ZONE, zone_of

_NO_SUCH_CATALOG: Final = "REQUIRES_SINGLE_PART_NAMESPACE"
"""Spark's error for a three-part name that starts with none of its own catalogs."""


class SparkQueries:
    """One Spark session with the data source registered for some catalogs; works on Spark Connect, too."""

    def __init__(
        self,
        tables: CatalogTables,
        catalog: str,
        spark: SparkSession | None,
        settings: Mapping[str, str],
        with_connector: bool = False,
    ) -> None:
        self._tables, self._catalog = tables, catalog
        self.spark = spark if spark is not None else any_session(settings, with_connector)
        self._streamed: dict[str, DynamicTable] = {}
        self._planned, self._views = BatchScanPlanner(self.spark), TempViews()
        self.update_catalogs()

    def update_catalogs(self) -> None:
        """Updates the catalogs that ``format("lakelog")`` knows."""
        self._source = register(self.spark, self._tables.configs, self._catalog)
        self._planned.cached.keep_catalogs(self._tables.configs)

    def is_spark_relation(self, name: str) -> bool:
        """True if Spark knows a temporary view or table of this name."""
        try:
            with spark_only():
                return bool(self.spark.catalog.tableExists(name))
        except AnalysisException as refused:
            if condition_of(refused) == _NO_SUCH_CATALOG:
                return False
            raise

    def is_view(self, name: str) -> bool:
        """True if Spark knows a view of this name."""
        return self.is_spark_relation(name) and self.spark.catalog.getTable(name).tableType in ("TEMPORARY", "VIEW")

    def view_of(self, name: str) -> tuple[str, Source] | None:
        """The query of a temporary view over one table, and its read; None on Connect, whose client has no queries."""
        return None if is_remote() else self._views.query_of(self.spark, name)

    def run_query(self, plan: QueryPlan) -> DataFrame:
        """Creates a view of the needed columns for each lakelog table and passes the text to Spark."""
        plan = folded(plan, lambda source: scan_of(self._open(source)).row_schema.field_names)
        frame = self._run_query(plan, is_live=plan.persistent)
        if frame.isStreaming and not plan.persistent and not self._reads_logs_only(plan):
            # each micro-batch reads the current tables
            frame = self._run_query(plan, is_live=True)
        is_explain = plan.text.split(maxsplit=1)[0].upper() == "EXPLAIN"
        return with_reports(self.spark, frame, self._reports(plan), plan) if is_explain else frame

    def batches(self, plan: QueryPlan) -> Iterator[pa.RecordBatch]:
        """The rows of a query as Arrow batches. Raises InvalidRequest with Spark's reason."""
        try:
            with job_failures():
                rows = arrow_rows(self.run_query(plan))
            yield from rows.to_batches()
        except PySparkException as failed:
            raise InvalidRequest(f"Spark cannot run the query: {str(failed).partition(chr(10))[0]}") from failed

    def _reports(self, plan: QueryPlan) -> list[str]:
        pruned = self._pruned(plan)
        reports = (self._planned.report(scan_of(self._open(s)), s, s.view in pruned.small) for s in pruned.sources)
        return [text for text in reports if text is not None]

    def _open(self, source: Source) -> DynamicTable:
        return self._tables.open(source.table, source.options)

    def _pruned(self, plan: QueryPlan) -> PrunedSources:
        """The sources of a query over the current rows, with the filters of their joins."""
        if not any(source.joined for source in plan.sources):
            return PrunedSources(plan.sources, {})
        scans = {source.view: scan_of(self._open(source)) for source in plan.sources}
        return prune(plan, {view: scan for view, scan in scans.items() if isinstance(scan, Scan)})

    def _reads_logs_only(self, plan: QueryPlan) -> bool:
        return all(self._open(source).streams_log for source in plan.sources)

    def _sql(
        self, text: str, frames: Mapping[str, DataFrame] | None = None, sources: Sequence[Source] = ()
    ) -> DataFrame:
        """The only path of user text to Spark."""
        self._views.renew(self.spark, text, lambda source: self._frame(source, is_live=True))
        named = dict(frames or {})
        viewed = self._views.read_by(text)
        if not is_remote() and any(map(self._has_kinds, (*sources, *viewed))):
            netted = unused_kinds(self.spark, text, named)
            named |= {s.view: netted_rows(self.spark, self._open(s), s) for s in sources if s.view in netted}
            for source in (s for s in viewed if s.view in netted):
                netted_rows(self.spark, self._open(source), source).createOrReplaceTempView(source.view)
        with newer_syntax():
            frame = spark_sql(self.spark, text, named)
        self._views.made(text)
        if ROW_KIND_COLUMN not in text.lower():
            check_retractions(frame, self._source)
        return frame

    def _run_query(self, plan: QueryPlan, is_live: bool) -> DataFrame:
        pruned = PrunedSources(plan.sources, {}) if is_live else self._pruned(plan)
        frames = {s.view: self._frame(s, is_live, pruned.small.get(s.view)) for s in pruned.sources}
        # a shuffle would change the order of a key's changes
        kept = {LOOKUP_SHUFFLE.key: "none"} if any(streams_changes(self._open(s)) for s in plan.sources) else {}
        for lookup in plan.lookups:
            table = self._tables.open(lookup.table, {**kept, **lookup.options})
            self._check(table)
            frames[lookup.view] = lookup_frame(self._sql(lookup.text, frames), table, lookup)
        if not plan.persistent:
            return self._sql(plan.text, frames, pruned.sources)
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        made = self._sql(plan.text)
        self._views.keep(plan.sources)
        return made

    def columns_of(self, plan: QueryPlan, allow_null: bool = False) -> Sequence[tuple[str, DataType]]:
        """(name, type) of a query's result columns; with ``allow_null``, those that are always NULL are STRING."""
        return [(n, kind) for n, kind in columns_of(self.run_query(plan).schema, allow_null) if n != ROW_KIND_COLUMN]

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the session."""
        return zone_of(self.spark.conf.get(SESSION_ZONE) or "")

    def millis_of(self, expression: str) -> int:
        """The time of an expression, evaluated by Spark."""
        millis = self._sql(f"SELECT unix_millis(CAST(({expression}) AS TIMESTAMP))").collect()[0][0]
        if millis is None:
            raise InvalidRequest(f"TIMESTAMP AS OF {expression} is NULL: give a time")
        return int(millis)

    def checks_casts(self) -> bool:
        """True if a cast of the session fails for a value that does not fit."""
        return checks_casts(self.spark)

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Column → its Spark type name, except for arrays, maps and structs."""
        fields: StructType = spark_schema(Scan(self._tables.open(table)).schema)
        nested = (ArrayType, MapType, StructType)
        return {f.name: f.dataType.simpleString() for f in fields if not isinstance(f.dataType, nested)}

    def scan(self, table: DynamicTable, scan: TableScan, condition: str | None = None) -> DataFrame:
        """A batch DataFrame of a scan's columns; ``condition`` may drop rows that do not match it.

        If Spark itself can read some of the files, it reads the newest snapshot at the time of this call.
        """
        if isinstance(scan, Scan):
            return self._planned.frame(scan, condition)
        return python_frame(self.spark, scan, condition)

    def read_stream(self, table: DynamicTable, columns: tuple[str, ...] | None = None) -> Any:
        """The changes of the log (``read.mode`` = log) or of the files, with ``_row_kind``; see ``stream_of``."""
        if table.reads_log:
            check_streams(table)
            self._check(table)
        return stream_of(self.spark, table, columns)

    def named(self, frames: Mapping[str, Any]) -> AbstractContextManager[dict[str, str]]:
        """Temporary views of DataFrames and Arrow rows for the duration of a block: name → view."""
        return named_views(self.spark, frames)

    def _frame(self, source: Source, is_live: bool, small: SmallTable | None = None) -> DataFrame:
        """The rows of a source: the current ones, or with ``is_live`` those at the time of each read.

        For a ``small`` table they are the rows that were read before.
        """
        table = self._open(source)
        if table.streams_log:
            return in_sql(self.read_stream(table, source.columns), table)
        scan = scan_of(table)
        if source.counts:
            return self._planned.counts(scan, source.columns or (), source.filter, is_live)
        # only a read of changes has row kinds
        columns = source.columns
        if columns is not None and ROW_KIND_COLUMN not in scan.row_schema.field_names:
            columns = tuple(c for c in columns if c != ROW_KIND_COLUMN)
        if is_live or has_kinds(table, source):
            return python_frame(self.spark, scan.select(columns), source.filter, relation=source.view)
        if small is not None:
            return self._planned.of_splits(small.scan.select(columns), small.splits)
        if source.limit is not None and isinstance(scan, Scan):
            return self._planned.first_rows(scan.select(columns), source.limit)
        return self.scan(table, scan.select(columns), source.filter)

    def _has_kinds(self, source: Source) -> bool:
        try:
            return has_kinds(self._open(source), source)
        except NotFound:  # of a view whose table was dropped, and which the text may not name
            return False

    def _check(self, table: DynamicTable) -> None:
        if table.log is not None and (table.reads_log or table.emits_log):
            LOG_SYSTEMS.create(table.log.system).check(table.log, spread=is_spread(self.spark))

    def cache_table(self, table: Identifier, level: str, lazy: bool) -> None:
        """Caches the rows of a table for this session; reads them now unless ``lazy``."""
        frame = self._planned.cached.cache(scan_of(self._tables.open(table)), level)
        if not lazy:
            frame.count()

    def uncache_table(self, table: Identifier | None) -> None:
        """Releases the cached rows of a table, or of all without one."""
        self._planned.cached.uncache(None if table is None else self._tables.open(table).address)

    def pass_through(self, text: str) -> DataFrame:
        """Passes another statement of Spark through unchanged."""
        return self._sql(text)
