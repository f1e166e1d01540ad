"""The user-facing table: scan, tail, write, describe, compact; no Spark needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.lake.arguments import with_checked_arguments
from lakelog.lake.output.table_html import table_html
from lakelog.lake.table.altering import TableAltering, refuse_alter
from lakelog.lake.table.changes import Statements, TableChanges
from lakelog.lake.table.history import TableHistory
from lakelog.lake.table.reading import TableReading
from lakelog.lake.table.writing import TableWriting, WriteFrame
from lakelog.logstore.base import LogLocation
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.metadata.table_statistics import TableStatistics
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.predicate_parser import predicate_of
from lakelog.sql.runtime.describe import describe
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import end_writer
from lakelog.table.maintenance.analyze import analyze, table_statistics
from lakelog.table.maintenance.compaction_commit import CompactionSummary, ManifestSummary, compact_manifests
from lakelog.table.maintenance.compaction_job import Progress, chosen_partitions, compact_table
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.maintenance.publish import publish
from lakelog.table.model.dynamic_table import DynamicTable, open_branch
from lakelog.table.read.base import TableScan
from lakelog.table.write.rescale import rescale


@with_checked_arguments
class Table(TableReading, TableWriting, TableChanges, TableAltering, TableHistory):
    """One logical table, made by ``Lake.table``. Cheap to create; keeps no resources open."""

    def __init__(
        self,
        table: DynamicTable,
        to_dataframe: Callable[[DynamicTable, TableScan, str | None], Any],
        alter: Callable[[Identifier, Sequence[SchemaChange]], TableLocation],
        executor: Callable[[bool], Executor | None],
        statements: Statements,
        write_frame: WriteFrame,
    ) -> None:
        self._table, self._to_dataframe, self._alter, self._executor = table, to_dataframe, alter, executor
        self._statements, self._write_frame = statements, write_frame

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
        snapshots = seal_staged(self._table)
        publish(self._table)
        return snapshots

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

    def branch(self, name: str) -> Table:
        """A branch of this table, read, written and maintained like a table, without a log. Raises NotFound."""
        branch = open_branch(self._table, name)
        return Table(branch, self._to_dataframe, refuse_alter, self._executor, self._statements, self._write_frame)

    def describe(self, extended: bool = False) -> list[tuple[str, str, str]]:
        """(column, type, comment) rows as DESCRIBE shows them."""
        return describe(self._table, extended)

    def _repr_html_(self) -> str:
        """The notebook view: columns, keys, the newest snapshot."""
        return table_html(self._table)

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(f'{f.name} {f.type}' for f in self.schema)})"
