"""Runs everything that needs Spark: queries over lakelog tables, inserts, and all other statements of Spark."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StructType
from pyspark.sql.utils import is_remote

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, NotFound, UnsupportedFeature
from lakelog.io.names import new_uuid
from lakelog.logstore import LOG_SYSTEMS
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.lookup import LOOKUP_SHUFFLE
from lakelog.options.overwrite import DYNAMIC_PARTITION_OVERWRITE, OVERWRITE_DATA_FILES, OVERWRITE_PARTITION
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.paimon.types.types import DataType
from lakelog.spark.compat.failures import condition_of, job_failures, newer_syntax
from lakelog.spark.engine.compaction import SparkExecutor, spark_executor
from lakelog.spark.engine.input_frames import TempViews, align_columns, checkpointed_rows, named_views
from lakelog.spark.engine.kind_use import has_kinds, netted_rows, unused_kinds
from lakelog.spark.engine.open_tables import OpensTables
from lakelog.spark.engine.plan_nodes import streams_changes
from lakelog.spark.engine.retraction_check import check_retractions
from lakelog.spark.engine.stream_changes import with_changes
from lakelog.spark.engine.stream_reads import in_sql, stream_of
from lakelog.spark.engine.streaming_query import default_checkpoint
from lakelog.spark.lookup.join import On, join_frame, lookup_frame
from lakelog.spark.native.explain import with_reports
from lakelog.spark.native.join_pruning import PrunedSources, SmallTable, prune
from lakelog.spark.native.native_scan import BatchScanPlanner, python_frame
from lakelog.spark.realtime.realtime import read_changes, realtime_log, start_write
from lakelog.spark.runtime.arrow_rows import arrow_rows
from lakelog.spark.runtime.types import checks_casts, columns_of, spark_schema
from lakelog.spark.session.attach import attach, detach, spark_sql
from lakelog.spark.session.attached_names import AttachedLake, attach_names, detach_names, spark_only
from lakelog.spark.session.data_source import check_streams
from lakelog.spark.session.session import any_session, is_spread, register
from lakelog.spark.write.append_stream import start_append
from lakelog.spark.write.batch_writer import write_frame
from lakelog.spark.write.clustering import clustered
from lakelog.spark.write.remote_write import write_remote
from lakelog.spark.write.shuffle import shuffled
from lakelog.spark.write.update_stream import start_update
from lakelog.sql.dml.row_changes import text_of, with_row_kind
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.query.scalar_subqueries import folded
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.runtime.spark_errors import lakelog_error_in_text
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_sql
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.open import scan_of
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.time_travel import SESSION_ZONE, zone_of
from lakelog.table.write.clustering import ClusteringJob
from lakelog.table.write.replace_files import files_to_rewrite
from lakelog.table.write.replaced_rows import check_overwrite

_FEW_CORES: Final = 4
"""Maximum number of threads at which a compaction's Python code mostly leaves the interpreter to Arrow."""
_ASSIGNMENT: Final = "spark.sql.storeAssignmentPolicy"
_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
_NO_SUCH_CATALOG: Final = "REQUIRES_SINGLE_PART_NAMESPACE"
"""Spark's error for a three-part name that starts with none of its own catalogs."""


class SparkEngine:
    """One Spark session with the data source registered for some catalogs; works on Spark Connect, too."""

    def __init__(
        self,
        tables: OpensTables,
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
        self._attached: Callable[..., Any] | None = None

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
        """The EXPLAIN report of each table in a query."""
        found = self._pruned(plan)
        reports = (self._planned.report(scan_of(self._open(s)), s, s.view in found.small) for s in found.sources)
        return [text for text in reports if text is not None]

    def _open(self, source: Source) -> DynamicTable:
        return self._tables.open(source.table, source.options)

    def _pruned(self, plan: QueryPlan) -> PrunedSources:
        """The sources of a query over the current rows, with the filters of their joins."""
        if not any(source.joined for source in plan.sources):
            return PrunedSources(plan.sources, {})
        found = {source.view: scan_of(self._open(source)) for source in plan.sources}
        return prune(plan, {view: scan for view, scan in found.items() if isinstance(scan, Scan)})

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
            found = spark_sql(self.spark, text, named)
        self._views.made(text)
        if ROW_KIND_COLUMN not in text.lower():
            check_retractions(found, self._source)
        return found

    def _run_query(self, plan: QueryPlan, is_live: bool) -> DataFrame:
        found = PrunedSources(plan.sources, {}) if is_live else self._pruned(plan)
        frames = {s.view: self._frame(s, is_live, found.small.get(s.view)) for s in found.sources}
        # a shuffle would change the order of a key's changes
        kept = {LOOKUP_SHUFFLE.key: "none"} if any(streams_changes(self._open(s)) for s in plan.sources) else {}
        for lookup in plan.lookups:
            table = self._tables.open(lookup.table, {**kept, **lookup.options})
            self._check(table)
            frames[lookup.view] = lookup_frame(self._sql(lookup.text, frames), table, lookup)
        if not plan.persistent:
            return self._sql(plan.text, frames, found.sources)
        for view, frame in frames.items():
            frame.createOrReplaceTempView(view)
        made = self._sql(plan.text)
        self._views.keep(plan.sources)
        return made

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

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: Mapping[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
        match: FieldMatch = FieldMatch.POSITION,
    ) -> Any:
        """Writes a query's rows by position, with casts to the table's types; ``partition`` are further columns.

        Returns the counts of a batch insert, or the StreamingQuery of a stream. Its checkpoint is managed next to the
        table, one per statement text, so that the same statement resumes where it stopped.
        """
        target = self._tables.open(table, {**options, **MISSING_AS_NULL})
        target.check_rows_writable()
        types: StructType = spark_schema(Scan(target).schema)
        frame = align_columns(self.run_query(self._with_changes(plan)), target, columns, match)
        for name, value in partition.items():
            what = f"partition column '{name}' of table {target.name}"
            text = "NULL" if value is None else text_of(value)
            kind = types[name].dataType.simpleString()
            frame = frame.withColumn(name, sf.expr(cast_sql(text, kind, None if self.checks_casts() else what)))
        if overwrite:
            return self._overwrite(frame, target, partition)
        if frame.isStreaming:
            digest = hashlib.sha256(f"{target.name} {plan.identity}".encode()).hexdigest()[:16]
            return self.start_stream(target, frame, default_checkpoint(target, digest))
        return self.write(target, frame)

    def columns_of(self, plan: QueryPlan, allow_null: bool = False) -> Sequence[tuple[str, DataType]]:
        """(name, type) of a query's result columns; with ``allow_null``, those that are always NULL are STRING."""
        return [(n, kind) for n, kind in columns_of(self.run_query(plan).schema, allow_null) if n != ROW_KIND_COLUMN]

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the session."""
        return zone_of(self.spark.conf.get(SESSION_ZONE) or "")

    def millis_of(self, expression: str) -> int:
        """The time of an expression, evaluated by Spark."""
        found = self._sql(f"SELECT unix_millis(CAST(({expression}) AS TIMESTAMP))").collect()[0][0]
        if found is None:
            raise InvalidRequest(f"TIMESTAMP AS OF {expression} is NULL: give a time")
        return int(found)

    def check_assignments(self) -> None:
        """Raises UnsupportedFeature unless Spark's store assignment is that of ANSI, which all writes here have."""
        policy = str(self.spark.conf.get(_ASSIGNMENT, "ANSI") or "ANSI").upper()
        if policy != "ANSI":
            raise UnsupportedFeature(
                f"'{_ASSIGNMENT}' = '{policy}': lakelog assigns values as ANSI does, and refuses those that do not "
                "fit. Unset it"
            )

    def checks_casts(self) -> bool:
        """True if a cast of the session fails for a value that does not fit."""
        return checks_casts(self.spark)

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Column → its Spark type name, except for arrays, maps and structs."""
        fields: StructType = spark_schema(Scan(self._tables.open(table)).schema)
        nested = (ArrayType, MapType, StructType)
        return {f.name: f.dataType.simpleString() for f in fields if not isinstance(f.dataType, nested)}

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        """The data files of a table without a primary key that contain the rows of a plan; all without a plan.

        If Spark does not read the files itself, they are those that may contain such rows.
        """
        target = self._tables.open(table, options)
        if plan is None:
            return files_to_rewrite(target)
        source = next(source for source in plan.sources if source.table == table)
        condition = None if source.filter is None else parse_filter(source.filter, target.schema)
        candidates = files_to_rewrite(target, condition)
        named = arrow_rows(self.run_query(plan)).column(0).unique().to_pylist()
        found = {str(path).rpartition("/")[2] for path in named}
        return candidates if "" in found else sorted(found)

    @contextlib.contextmanager
    def materialized(self, plan: QueryPlan) -> Iterator[str]:
        """Runs a query, and keeps its rows in the executors; if one is lost, reads of its rows fail."""
        with checkpointed_rows(self.run_query(plan)) as rows, self.named({"rows": rows}) as views:
            yield views["rows"]

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> RowCounts:
        """Replaces data files with the rows of the plan."""
        target = self._tables.open(table, {**options, OVERWRITE_DATA_FILES.key: json.dumps(list(files))})
        target.check_rows_writable()
        return self._save(align_columns(self.run_query(plan), target, None), target, overwrite=True)

    def write_sorted(self, files: ClusteringJob) -> None:
        """Rewrites the rows of data files, clustered by columns."""
        given = files.table.with_hints({SCAN_DATA_FILES.key: ",".join(files.names)})
        target = files.table.with_hints({OVERWRITE_DATA_FILES.key: json.dumps(files.names)})
        self._save(clustered(self.scan(given, Scan(given)), files), target, overwrite=True)

    def write(self, table: DynamicTable, frame: DataFrame, overwrite: bool | Mapping[str, object] = False) -> RowCounts:
        """Writes the rows of a batch DataFrame, columns by name. Raises InvalidRequest for a stream."""
        if frame.isStreaming:
            raise InvalidRequest(f"a streaming DataFrame is written by lake.write_stream(frame, '{table.name}')")
        self._check(table)
        if overwrite is False:
            return self._save(frame, table, overwrite=False)
        check_overwrite(table)
        chosen = {} if overwrite is True else {OVERWRITE_PARTITION.key: json.dumps(overwrite, default=str)}
        return self._save(frame, table.with_hints(chosen), overwrite=True)

    def _overwrite(self, frame: DataFrame, table: DynamicTable, partition: Mapping[str, str | None]) -> RowCounts:
        if frame.isStreaming:
            raise InvalidRequest(f"INSERT OVERWRITE of table {table.name} needs a batch query, not a stream")
        check_overwrite(table)
        chosen = {OVERWRITE_PARTITION.key: json.dumps(partition)} if partition else {}
        if DYNAMIC_PARTITION_OVERWRITE.key not in table.options:
            mode = self.spark.conf.get(_OVERWRITE_MODE, "static") or "static"
            chosen[DYNAMIC_PARTITION_OVERWRITE.key] = str(mode.lower() == "dynamic").lower()
        return self._save(frame, table.with_hints(chosen), overwrite=True)

    def _save(self, frame: DataFrame, table: DynamicTable, overwrite: bool) -> RowCounts:
        rows = shuffled(frame, table)
        try:
            with job_failures():
                return write_remote(rows, table, overwrite) if is_remote() else write_frame(rows, table, overwrite)
        except PySparkException as failed:
            own = lakelog_error_in_text(failed)
            if own is failed:
                raise
            raise own from failed

    def start_stream(self, table: DynamicTable, frame: DataFrame, checkpoint: str | None) -> Any:
        """Starts the streaming write of a frame into a table: appends its rows, or updates those of an aggregation."""
        self._check(table)
        check_retractions(frame, self._source)
        frame = with_changes(frame, table, self._source, self.read_stream)
        self._streamed[table.path] = table
        directory = checkpoint or default_checkpoint(table, new_uuid())
        try:
            return start_append(table, frame, directory)
        except AnalysisException as refused:
            return start_update(table, frame, directory, refused)

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

    def lookup_join(
        self, frame: DataFrame, table: DynamicTable, on: On, how: str, columns: Sequence[str] | None, prefix: str
    ) -> DataFrame:
        """A frame joined with the newest rows of a table."""
        self._check(table)
        return join_frame(frame, table, on, how, columns, prefix)

    def read_realtime(self, table: DynamicTable, columns: Sequence[str] | None) -> DataFrame:
        """A streaming DataFrame of the log from Spark's own connector and operators."""
        _check_realtime(table)
        return read_changes(self.spark, table, columns)

    def write_realtime(
        self, table: DynamicTable, frame: DataFrame, checkpoint: str | None, real_time: str | None
    ) -> Any:
        """Starts a query that writes a frame into the log first."""
        _check_realtime(table)
        return start_write(table, frame, checkpoint or default_checkpoint(table, new_uuid()), real_time)

    def executor(self, wanted: bool = False) -> SparkExecutor | None:
        """The session's executors, for compactions.

        None for a local session of few cores, unless ``wanted``. There, threads of this process are as fast, without
        starting Python workers.
        """
        is_here = not is_remote() and not is_spread(self.spark)
        if not wanted and is_here and self.spark.sparkContext.defaultParallelism <= _FEW_CORES:
            return None
        return spark_executor(self.spark)

    def named(self, frames: Mapping[str, Any]) -> AbstractContextManager[dict[str, str]]:
        """Temporary views of DataFrames and Arrow rows for the duration of a block: name → view."""
        return named_views(self.spark, frames)

    def attach(self, run: Callable[[str], list[Any]], tables: AttachedLake) -> None:
        """Makes ``spark.sql`` of the session run texts with ``run``, and its other methods know the tables."""
        self._attached = attach(self.spark, run)
        attach_names(self.spark, tables)

    def detach(self) -> None:
        """Restores the session's own ``spark.sql``, and releases the memory of cached tables."""
        self._planned.cached.uncache(None)
        if self._attached is not None and detach(self.spark, self._attached):
            detach_names(self.spark)

    def stop(self) -> None:
        """Stops the queries, seals what they have finished, stops the session."""
        for query in self.spark.streams.active:
            query.stop()
        for table in self._streamed.values():
            with contextlib.suppress(NotFound):  # dropped in the meantime
                seal_staged(table)
                take_over_now(table)
        self.spark.stop()

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
        wanted = source.columns
        if wanted is not None and ROW_KIND_COLUMN not in scan.row_schema.field_names:
            wanted = tuple(c for c in wanted if c != ROW_KIND_COLUMN)
        if is_live or has_kinds(table, source):
            return python_frame(self.spark, scan.select(wanted), source.filter, relation=source.view)
        if small is not None:
            return self._planned.of_splits(small.scan.select(wanted), small.splits)
        if source.limit is not None and isinstance(scan, Scan):
            return self._planned.first_rows(scan.select(wanted), source.limit)
        return self.scan(table, scan.select(wanted), source.filter)

    def _has_kinds(self, source: Source) -> bool:
        try:
            return has_kinds(self._open(source), source)
        except NotFound:  # of a view whose table was dropped, and which the text may not name
            return False

    def _with_changes(self, plan: QueryPlan) -> QueryPlan:
        """On Spark Connect, the plan with the row kinds in its text; ``with_changes`` does it for classic frames.

        Raises UnsupportedFeature if the text would lose them.
        """
        if not is_remote() or ROW_KIND_COLUMN in plan.text.lower():
            return plan
        changes = [source for source in plan.sources if streams_changes(self._open(source))]
        found = with_row_kind(plan, changes[0]) if changes and len(plan.sources) == 1 else None
        if changes and found is None and all(s.columns is not None for s in changes):
            raise UnsupportedFeature(
                f"a stream of the changes of table {changes[0].table} on Spark Connect is written by SELECT … FROM … "
                f"WHERE of one table, or by a query that selects {ROW_KIND_COLUMN}: use a session that is not remote"
            )
        return found or plan

    def _check(self, table: DynamicTable) -> None:
        if table.log is not None and (table.reads_log or table.emits_log):
            LOG_SYSTEMS.create(table.log.system).check(table.log, spread=is_spread(self.spark))


def _check_realtime(table: DynamicTable) -> None:
    log = realtime_log(table)
    LOG_SYSTEMS.create(log.system).check(log)
