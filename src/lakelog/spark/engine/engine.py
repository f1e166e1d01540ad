"""The engine of statements on Spark: queries, writes, streams, and its life."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, NotFound, UnsupportedFeature
from lakelog.io.names import new_uuid
from lakelog.logstore import LOG_SYSTEMS
from lakelog.options.log import SCAN_DATA_FILES
from lakelog.options.overwrite import DYNAMIC_PARTITION_OVERWRITE, OVERWRITE_DATA_FILES, OVERWRITE_PARTITION
from lakelog.options.table import MISSING_AS_NULL
from lakelog.paimon.rows.row_kind import ROW_KIND_COLUMN
from lakelog.spark.compat.failures import job_failures
from lakelog.spark.engine.compaction import SparkExecutor, spark_executor
from lakelog.spark.engine.input_frames import align_columns, checkpointed_rows
from lakelog.spark.engine.plan_nodes import streams_changes
from lakelog.spark.engine.queries import SparkQueries
from lakelog.spark.engine.retraction_check import check_retractions
from lakelog.spark.engine.stream_changes import with_changes
from lakelog.spark.engine.streaming_query import default_checkpoint
from lakelog.spark.lookup.join import On, join_frame
from lakelog.spark.realtime.realtime import read_changes, realtime_log, start_write
from lakelog.spark.runtime.arrow_rows import arrow_rows
from lakelog.spark.runtime.types import spark_schema
from lakelog.spark.session.attach import attach, detach
from lakelog.spark.session.attached_names import AttachedLake, attach_names, detach_names
from lakelog.spark.session.session import is_spread
from lakelog.spark.write.append_stream import start_append
from lakelog.spark.write.batch_writer import write_frame
from lakelog.spark.write.clustering import clustered
from lakelog.spark.write.remote_write import write_remote
from lakelog.spark.write.shuffle import shuffled
from lakelog.spark.write.update_stream import start_update
from lakelog.sql.dml.row_changes import text_of, with_row_kind
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.spark_errors import lakelog_error_in_text
from lakelog.sql.syntax.struct_casts import FieldMatch, cast_sql
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.read.file_scan import Scan
from lakelog.table.write.clustering import ClusteringJob
from lakelog.table.write.replace_files import files_to_rewrite
from lakelog.table.write.replaced_rows import check_overwrite

_FEW_CORES: Final = 4
"""Maximum number of threads at which a compaction's Python code mostly leaves the interpreter to Arrow."""
_ASSIGNMENT: Final = "spark.sql.storeAssignmentPolicy"
_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


class SparkEngine(SparkQueries):
    """The statements of a lake on a Spark session."""

    _attached: Callable[..., Any] | None = None

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

    def check_assignments(self) -> None:
        """Raises UnsupportedFeature unless Spark's store assignment is that of ANSI, which all writes here have."""
        policy = str(self.spark.conf.get(_ASSIGNMENT, "ANSI") or "ANSI").upper()
        if policy != "ANSI":
            raise UnsupportedFeature(
                f"'{_ASSIGNMENT}' = '{policy}': lakelog assigns values as ANSI does, and refuses those that do not "
                "fit. Unset it"
            )

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
        names = {str(path).rpartition("/")[2] for path in named}
        return candidates if "" in names else sorted(names)

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
        source = files.table.with_hints({SCAN_DATA_FILES.key: ",".join(files.names)})
        target = files.table.with_hints({OVERWRITE_DATA_FILES.key: json.dumps(files.names)})
        self._save(clustered(self.scan(source, Scan(source)), files), target, overwrite=True)

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
            error = lakelog_error_in_text(failed)
            if error is failed:
                raise
            raise error from failed

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

    def _with_changes(self, plan: QueryPlan) -> QueryPlan:
        """On Spark Connect, the plan with the row kinds in its text; ``with_changes`` does it for classic frames.

        Raises UnsupportedFeature if the text would lose them.
        """
        if not is_remote() or ROW_KIND_COLUMN in plan.text.lower():
            return plan
        changes = [source for source in plan.sources if streams_changes(self._open(source))]
        changed = with_row_kind(plan, changes[0]) if changes and len(plan.sources) == 1 else None
        if changes and changed is None and all(s.columns is not None for s in changes):
            raise UnsupportedFeature(
                f"a stream of the changes of table {changes[0].table} on Spark Connect is written by SELECT … FROM … "
                f"WHERE of one table, or by a query that selects {ROW_KIND_COLUMN}: use a session that is not remote"
            )
        return changed or plan


def _check_realtime(table: DynamicTable) -> None:
    log = realtime_log(table)
    LOG_SYSTEMS.create(log.system).check(log)
