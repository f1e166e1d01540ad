"""The port of SQL to its engines, which the caller passes to a Session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import tzinfo
from typing import Protocol

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.paimon.types.types import DataType
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.write.clustering import ClusteringJob


class RunningStream(Protocol):
    """A running write of a stream (Spark's StreamingQuery)."""

    def stop(self) -> None:
        """Stops the stream."""


class Engine(Protocol):
    """Runs queries: the Spark side of a session."""

    def is_spark_relation(self, name: str) -> bool:
        """Returns whether Spark itself has a temporary view or table of this (dotted) name.

        For a name of one part a temporary view takes precedence over a lakelog table.
        """

    def is_view(self, name: str) -> bool:
        """Returns whether Spark itself has a view of this (dotted) name."""

    def view_of(self, name: str) -> tuple[str, Source] | None:
        """The query of a temporary view over one table of the lake, and the read that a name in it refers to.

        None for views of Spark's own tables, of several tables, of frames, and for anything that is no view.
        """

    def run_query(self, plan: QueryPlan) -> object:
        """Creates a temporary view of each source of the plan, runs its text, returns the DataFrame.

        With ``plan.persistent`` the views must outlive the call (the text created a view on them).
        """

    def batches(self, plan: QueryPlan) -> Iterator[pa.RecordBatch]:
        """The rows of a query over snapshots as Arrow batches."""

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: dict[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
        match: FieldMatch = FieldMatch.POSITION,
    ) -> RunningStream | RowCounts:
        """Writes the rows of the plan into the table; ``columns`` name the table's columns in the query's order.

        ``partition`` are static values of partition columns for all rows (text, None for NULL). ``overwrite`` replaces
        these partitions; without any, the partitions of the rows or the whole table. ``match`` finds fields of structs.
        Returns the number of written rows by row kind, or the write of a stream.
        """

    def columns_of(self, plan: QueryPlan, allow_null: bool = False) -> Sequence[tuple[str, DataType]]:
        """(name, type) of a query's columns without row kinds, all nullable.

        With ``allow_null``, columns and parts of columns that are always NULL count as STRING. Raises
        UnsupportedFeature for types that a table does not have.
        """

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the session; None: that of this machine."""

    def millis_of(self, expression: str) -> int:
        """The time value of an expression without columns, in ms since 1970. Raises InvalidRequest for NULL."""

    def check_assignments(self) -> None:
        """Raises UnsupportedFeature for a setting of the session by which assigned values would be others."""
        ...

    def checks_casts(self) -> bool:
        """True if a cast of the session fails for a value that does not fit (``spark.sql.ansi.enabled``)."""

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Column → its type in the engine's syntax, for columns other than arrays, maps and structs."""

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        """The data files of a table without a primary key that a plan names in its one column; all without a plan.

        Raises UnsupportedFeature if its files cannot be replaced.
        """

    def materialized(self, plan: QueryPlan) -> AbstractContextManager[str]:
        """Runs a query now, and provides its rows as a view for the duration of the block."""

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> RowCounts:
        """Writes the rows of the plan in place of data files, in one snapshot. Raises CommitConflict.

        Rows of the plan that are changed or new have a row kind, the others NULL.
        """

    def write_sorted(self, files: ClusteringJob) -> None:
        """Rewrites the rows of data files, clustered by columns, in one snapshot. Raises CommitConflict."""

    def cache_table(self, table: Identifier, level: str, lazy: bool) -> None:
        """Caches the rows of a table in the engine's memory, now or, if ``lazy``, with the next query.

        ``level`` is a name of Spark's StorageLevel. Raises InvalidRequest, UnsupportedFeature.
        """

    def uncache_table(self, table: Identifier | None) -> None:
        """Removes a table from the cache, or all tables if None; ignores tables that are not cached."""

    def pass_through(self, text: str) -> object:
        """Passes a statement to Spark unchanged."""

    def update_catalogs(self) -> None:
        """Called after a change of the session's catalogs, so that readers and writers by name use them, too."""

    def executor(self) -> Executor | None:
        """Spark's executors, for compactions; None if this process runs them."""
