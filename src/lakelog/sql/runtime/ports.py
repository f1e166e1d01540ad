"""Ports of SQL to the tables of the catalog and to Spark, which the caller passes to a Session."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import tzinfo
from typing import Protocol

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import DataType
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.syntax.struct_casts import FieldMatch
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.write.clustering import ClusteringJob
from lakelog.table.write.dml_support import DmlSupport


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


class Tables(Protocol):
    """Names, schemas and options of lakelog's tables, in one or several catalogs.

    ``catalog`` is a catalog's name in identifiers; "" is the session's first catalog.
    """

    def list_catalogs(self) -> list[str]:
        """Names of the catalogs added later, sorted."""

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a catalog with an unused name. Raises InvalidOption, NotInstalled."""

    def drop_catalog(self, name: str) -> None:
        """Removes a catalog that was added later; nothing in it changes."""

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The schema of a read with these options (without options the newest); None if the table does not exist."""

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Creates the table. Raises AlreadyExists."""

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        """Drops the table. Raises NotFound unless if_exists."""

    def truncate(self, identifier: Identifier, partition: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        """Removes all rows, or those of the partitions with these values. Raises NotFound if no partition has them."""

    def drop_partitions(
        self,
        identifier: Identifier,
        partitions: Sequence[Mapping[str, str | None]],
        if_exists: bool,
        options: Mapping[str, str],
    ) -> None:
        """Removes partitions with these values of partition columns. Raises NotFound unless if_exists."""

    def delete(self, identifier: Identifier, condition: str | None, options: Mapping[str, str]) -> RowCounts:
        """Deletes the partitions that match a condition on partition columns; all rows without one."""

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics of the table and of some columns (None: of all), and commits them."""

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> object:
        """Writes one new schema with all changes. Raises NotFound, InvalidRequest for a rejected change."""

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames the table. Raises NotFound, AlreadyExists."""

    def list_tables(self, database: str, catalog: str, /) -> list[str]:
        """Table names of a database. Raises NotFound."""

    def list_databases(self, catalog: str, /) -> list[str]:
        """Names of all databases."""

    def create_database(self, name: str, if_not_exists: bool, catalog: str) -> None:
        """Creates the database. Raises AlreadyExists."""

    def drop_database(self, name: str, if_exists: bool, cascade: bool, catalog: str) -> None:
        """Drops the database, with its tables if cascade. Raises NotFound unless if_exists."""

    def describe(self, identifier: Identifier, extended: bool) -> Sequence[tuple[str, str, str | None]]:
        """(name, type, comment) of each column; extended adds rows about the table. Raises NotFound."""

    def open(self, identifier: Identifier, /) -> DynamicTable:
        """The table itself, for procedures. Raises NotFound."""

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> DmlSupport:
        """The table's support of UPDATE, DELETE and MERGE. Raises UnsupportedFeature for an unsupported action."""

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checked options with canonical keys; scope is ``table``, ``read`` or ``write``. Raises InvalidOption."""
