"""The user-facing table: scan, tail, write, describe, compact; no Spark needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, overload

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.errors import UnsupportedFeature
from lakelog.filestore.metadata.paths import MAIN_BRANCH
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.lake.arguments import with_checked_arguments
from lakelog.lake.changes import Statements, TableChanges
from lakelog.lake.history import TableHistory
from lakelog.lake.output.describe import describe, table_html
from lakelog.logstore.base import LogLocation
from lakelog.options.table import Missing, with_missing
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.table_statistics import TableStatistics
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.predicate_parser import Condition, predicate_of
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import end_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.maintenance.analyze import analyze, table_statistics
from lakelog.table.maintenance.compaction_commit import CompactionSummary, ManifestSummary, compact_manifests
from lakelog.table.maintenance.compaction_job import Progress, chosen_partitions, compact_table
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.maintenance.publish import publish
from lakelog.table.model.dynamic_table import DynamicTable, open_branch
from lakelog.table.model.log_options import canonical_options
from lakelog.table.open import hints_of, scan_of
from lakelog.table.read.base import TableScan
from lakelog.table.read.file_scan import Scan
from lakelog.table.read.file_stream import FileStream, StreamPlan, StreamStart
from lakelog.table.tail.mirror import MirrorProgress, mirror_log
from lakelog.table.tail.subscribe import follow
from lakelog.table.tail.tail import AsyncTail, Tail
from lakelog.table.write.materializer import LogMaterializer
from lakelog.table.write.overwrite import OverwriteWriter, drop_partitions, overwrite_writer, truncate
from lakelog.table.write.replay_rejected import ReplaySummary, replay_rejected
from lakelog.table.write.rescale import rescale
from lakelog.table.write.table_writer import TableWriter

_Expression: TypeAlias = Any
"""``pyarrow.compute.Expression``. pyarrow has no types, and strict checkers of users' scripts reject unknown ones."""
Filter: TypeAlias = (
    str | Predicate | _Expression | Condition | Sequence[Condition] | Sequence[Sequence[Condition]] | None
)
"""SQL text, tuples as in pyarrow, or an Arrow expression."""


@with_checked_arguments
class Table(TableHistory, TableChanges):
    """One logical table, made by ``Lake.table``. Cheap to create; keeps no resources open."""

    def __init__(
        self,
        table: DynamicTable,
        to_dataframe: Callable[[DynamicTable, TableScan, str | None], Any],
        alter: Callable[[Identifier, Sequence[SchemaChange]], TableLocation],
        executor: Callable[[bool], Executor | None],
        statements: Statements,
    ) -> None:
        self._table, self._to_dataframe, self._alter, self._executor = table, to_dataframe, alter, executor
        self._statements = statements

    @property
    def name(self) -> str:
        """``db.table``, prefixed with its catalog unless that is the first one."""
        return self._table.name

    @property
    def path(self) -> str:
        """The table's directory; Apache Paimon can open it."""
        return self._table.path

    @property
    def logical(self) -> DynamicTable:
        """The table as the immutable value that the lower layers use; for services."""
        return self._table

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return scan_of(self._table).schema

    @property
    def definition(self) -> TableSchema:
        """Columns with SQL types, keys, buckets and options of the newest schema."""
        return self._table.schema

    @property
    def log(self) -> LogLocation | None:
        """The location of the log (system, topic, address), None if the table has none."""
        return self._table.log

    @property
    def primary_keys(self) -> tuple[str, ...]:
        """The columns of the primary key; empty if there is none."""
        return self._table.schema.primary_keys

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot, None before the first."""
        return self._table.store.latest_snapshot()

    @property
    def options(self) -> dict[str, str]:
        """The table's options as stored."""
        return dict(self._table.schema.options)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        snapshot_id: int | None = None,
        tag: str | None = None,
        timestamp: int | str | datetime | None = None,
        incremental_between: tuple[int | str, int | str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> TableScan:
        """A batch read of the newest state, of a point in the past, or of changes.

        ``snapshot_id``, ``tag`` or ``timestamp`` select a past snapshot, read with the columns of that time.
        ``timestamp`` is ms since 1970, text or a datetime, and selects the newest snapshot at that time.
        ``incremental_between`` is two snapshot ids (the first excluded) or two tags, and returns the changes between
        them, with a column ``_row_kind``. Two tags are compared, and the result has the new or changed rows
        (``$audit_log`` also returns the deleted ones). ``options`` are any read options.

        ``filter`` is SQL text such as ``"id = 1 and name like 'a%'"``, tuples such as ``[("id", ">", 1)]`` (all must be
        true), or an Arrow expression. Text and tuples skip files, an expression only drops rows. The result has
        ``to_arrow()``, ``to_polars()``, ``to_pandas()``, ``to_batches()``, ``head()``, ``count()``, ``limit()``,
        ``plan()``, ``explain()`` and the Arrow stream interface, so polars, pandas and DuckDB accept it directly.
        Raises InvalidRequest for a bad column or filter.
        """
        hints = hints_of(snapshot_id, tag, timestamp, incremental_between)
        scan = scan_of(self._table.with_hints({**canonical_options(options or {}, "read"), **hints}))
        if isinstance(filter, pc.Expression):
            return replace(scan, residual=filter).select(columns)
        return scan.where(predicate_of(filter, scan.row_schema)).select(columns)

    def stream_plan(
        self,
        from_snapshot: int | None = None,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[StreamPlan]:
        """The changes that a stream of the files emits up to the newest snapshot, plan by plan; no log needed.

        ``from_snapshot`` is the first snapshot whose changes are read, to resume a stream. Without it the stream starts
        at the point set by ``scan.mode``, by default with the full newest snapshot. ``filter`` is text or tuples, as in
        ``scan``. A plan has ``next`` (the
        ``from_snapshot`` to resume with), ``to_batches()`` and ``to_arrow()``; rows have a column ``_row_kind``. Raises
        NotFound if a snapshot has expired.
        """
        stream = FileStream(self._table.with_hints(canonical_options(options or {}, "read")))
        stream = stream.where(predicate_of(filter, stream.row_schema)).select(columns)
        return stream.plans(stream.start() if from_snapshot is None else StreamStart(None, from_snapshot))

    def tail(
        self,
        start: str | Mapping[int, int] = "latest",
        stop: str | threading.Event | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Tail:
        """Follows the log and yields Arrow batches with a column ``_row_kind`` as they arrive.

        ``start`` is ``latest``, ``earliest``, a map bucket → offset, ``latest-full``, or the ``position`` of a tail,
        which resumes exactly there. ``latest-full`` reads the newest snapshot as rows of kind +I, then the log right
        after it. The call itself resolves ``start``. ``stop="latest"`` ends at the current end of the log. An event
        stops the tail shortly after it is set. ``options`` are any read options: with ``log.consistency`` =
        ``transactional`` the tail returns only committed rows, and with a ``consumer-id`` the table stores its
        position under that name when the next batch is requested. Raises OffsetExpired unless ``scan.expired-offsets``
        sets a fallback, and InvalidRequest for the position of another table.
        """
        table = self._table.with_hints(canonical_options(options or {}, "read"))
        scan = LogScan(table, None if columns is None else tuple(Scan(table).select(columns).schema.names))
        return follow(scan, start, stop)

    def tail_async(
        self,
        start: str | Mapping[int, int] = "latest",
        stop: str | None = None,
        columns: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> AsyncTail:
        """``tail`` for ``async for``. A dedicated thread waits for the log and ends with the loop or its task."""
        ended = threading.Event()
        return AsyncTail(self.tail(start, stop or ended, columns, options), ended)

    def mirror(
        self,
        to: str,
        start: str = "latest-full",
        stop: str | threading.Event | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[MirrorProgress]:
        """Copies the committed changes of the log to a Kafka topic, ``kafka://host:9092/topic``, exactly once.

        Records are debezium-json. ``start`` (latest-full, earliest, latest) counts for a new topic; later calls resume.
        Each has the ``properties`` of Kafka's client, and any read ``options``. Yields about once a second. Raises
        Fenced after the start of another mirror of the topic, and the errors of ``tail``.
        """
        table = self._table.with_hints(canonical_options(options or {}, "read"))
        return mirror_log(table, to, start, stop, properties or {})

    def follow(self, stop: str | None = None, skip_missing: bool = False) -> Iterator[Snapshot]:
        """Writes files from rows that reached the log first (``Lake.write_realtime``), exactly once; no Spark.

        Yields each snapshot that it makes, without end or (``stop="latest"``) up to the current end of the log. The
        snapshots store the position to resume from. If records that are not in the files have been deleted,
        ``skip_missing`` skips them.
        """
        self._table.check_rows_writable()
        return LogMaterializer(self._table, skip_missing).follow(stop)

    def replay_rejected(self) -> ReplaySummary:
        """Writes the rows of ``t$rejected`` that fit the table by now, and removes them from there, exactly once.

        Call it after a fix of the table's columns or options. Replayed rows are newer than all rows of the table.
        Returns the numbers of written rows and of those that are still rejected. Raises CommitConflict, CommitDecided,
        CommitUnknown, Unavailable.
        """
        self._table.check_rows_writable()
        return replay_rejected(self._table)

    def log_records(self, start: str | Mapping[int, int] = "earliest") -> Iterator[pa.Table]:
        """The log's raw records up to its current end, bucket by bucket: offset, timestamp_ms, key, value, header."""
        return LogScan(self._table).records(start)

    @overload
    def writer(
        self,
        overwrite: Literal[False] = False,
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> TableWriter: ...

    @overload
    def writer(
        self,
        overwrite: Literal[True] | Mapping[str, object],
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> OverwriteWriter: ...

    def writer(
        self,
        overwrite: bool | Mapping[str, object] = False,
        options: Mapping[str, str] | None = None,
        *,
        missing: Missing | None = None,
    ) -> TableWriter | OverwriteWriter:
        """A context manager that takes Arrow rows and commits them when the block ends.

        ``overwrite`` replaces partitions. With a map of partition columns and values, it replaces those. With True, it
        replaces the partitions of the new rows. If the table has no partitions, or ``dynamic-partition-overwrite`` is
        false, it replaces the whole table.

        Rows of a ``deduplicate`` table replace whole rows, so they must have all columns. With ``missing="null"`` those
        that they lack become NULL.
        """
        self._table.check_rows_writable()
        table = self._with(with_missing(options, missing))
        if overwrite is False:
            return TableWriter(table, may_reject=True)
        return overwrite_writer(table, overwrite)

    def truncate(
        self, partition: Mapping[str, object] | None = None, options: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Removes all rows, or those of the partitions with these values. Raises NotFound if no partition matches."""
        self._table.check_rows_writable()
        return truncate(self._with(options), partition)

    def drop_partitions(
        self,
        partitions: Sequence[Mapping[str, object]],
        if_exists: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Removes partitions in one snapshot; each map has values of all or some partition columns.

        Raises NotFound for a map without a match, unless ``if_exists``.
        """
        self._table.check_rows_writable()
        return drop_partitions(self._with(options), partitions, if_exists)

    def rescale(self, partition: Mapping[str, object] | None = None) -> Snapshot | None:
        """Rewrites a partition, or the whole table, with its current number of buckets.

        Call it after 'bucket' was changed. Returns None if every partition already has that number.
        """
        self._table.check_writable()
        return rescale(self._table, partition)

    def seal(self) -> list[Snapshot]:
        """Commits the micro-batches that wait for ``commit.interval`` now; for streams that have stopped.

        A log of changes (``log.content``) is then up to date. Raises Unavailable.
        """
        made = seal_staged(self._table)
        publish(self._table)
        return made

    def end_writer(self, writer: str) -> Snapshot | None:
        """Ends a streaming query (by its id) that will not resume from its checkpoint.

        Takes back the undecided rows of the query in the log.
        """
        return end_writer(self._table, writer)

    def compact(
        self,
        full: bool = True,
        partitions: Sequence[Mapping[str, object]] = (),
        where: str | None = None,
        on_spark: bool | None = None,
        progress: Progress | None = None,
    ) -> CompactionSummary:
        """Merges the files of every bucket; with ``full`` false only of those with too many sorted runs.

        ``partitions`` (values of partition columns) and ``where`` (a condition on them) limit the compaction. It runs
        on Spark's executors if this lake has a session on a cluster or with more than four cores. ``on_spark`` starts
        such a session. Otherwise, or with ``on_spark`` false, it runs in threads of this process. ``progress`` is
        called with the number of finished and of all buckets. If another compactor works on a bucket, a ``full``
        compaction waits for it, and any other skips the bucket. Raises InvalidRequest, NotFound for a missing
        partition, and the errors of reading and writing files; finished work stays committed.
        """
        self._table.check_writable()
        condition = predicate_of(where, self._table.schema)
        chosen = chosen_partitions(self._table, partitions, condition)
        executor = None if on_spark is False else self._executor(on_spark is True)
        return compact_table(self._table, full, chosen, executor, progress)

    def compact_manifests(self) -> ManifestSummary:
        """Rewrites the table's manifests in as few files as possible; see ``CALL sys.compact_manifest``."""
        self._table.check_writable()
        return compact_manifests(self._table)

    def analyze(self, columns: Sequence[str] | None = None) -> Snapshot | None:
        """Computes statistics of the table and of columns (None: all, (): none) and commits them."""
        self._table.check_writable()
        return analyze(self._table, columns)

    def statistics(self) -> TableStatistics | None:
        """The statistics of the last ``analyze`` by any engine; None without."""
        return table_statistics(self._table)

    def alter(self, *changes: SchemaChange) -> None:
        """Applies all these changes (``lakelog.paimon.schema.changes``) as one new schema, or none of them.

        This object sees the new schema at once. Other objects and open writers keep their schema. Raises InvalidSchema,
        InvalidOption, UnsupportedFeature naming the refused change, CommitConflict, CommitUnknown.
        """
        self._table.check_writable()
        if self._table.branch != MAIN_BRANCH:
            _refuse_alter(self._table.location.identifier, changes)
        location = self._alter(self._table.location.identifier, changes)
        self._table = DynamicTable(location, self._table.hints)

    def branch(self, name: str) -> Table:
        """A branch of this table, read, written and maintained like a table, without a log. Raises NotFound."""
        return Table(
            open_branch(self._table, name), self._to_dataframe, _refuse_alter, self._executor, self._statements
        )

    def describe(self, extended: bool = False) -> list[tuple[str, str, str]]:
        """(column, type, comment) rows as DESCRIBE shows them."""
        return describe(self._table, extended)

    def to_spark(self, columns: Sequence[str] | None = None, filter: str | None = None) -> Any:
        """The scan as a Spark DataFrame of the table's current state; starts Spark if needed.

        Spark's own Parquet scan reads the files where it can. If a file has expired, the frame fails.
        """
        used = self.scan(filter=filter).filter
        needed = sorted(set() if used is None else used.columns)
        scan = self.scan(None if columns is None else [*columns, *(n for n in needed if n not in columns)])
        # In Spark NaN is larger than every number, so only Spark evaluates such conditions.
        floats = any(pa.types.is_floating(self.schema.field(name).type) for name in needed)
        frame = self._to_dataframe(self._table, scan, None if floats else filter)
        rows = frame if filter is None else frame.where(filter)
        return rows if columns is None else rows.select(*(f"`{name}`" for name in columns))

    def _with(self, options: Mapping[str, str] | None) -> DynamicTable:
        return self._table.with_hints(canonical_options(options or {}, "write"))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The current rows as an Arrow stream: polars, DuckDB, pandas and pyarrow accept the table directly."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The notebook view: columns, keys, the newest snapshot."""
        return table_html(self._table)

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(f'{f.name} {f.type}' for f in self.schema)})"


def _refuse_alter(identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
    raise UnsupportedFeature(
        f"the schema of a branch of table {identifier} cannot be changed: change main and recreate the branch"
    )
