"""What SQL needs from below and above: the tables of the catalog, and Spark. Both are given to a Session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.changes import SchemaChange
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import DataType
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.write.clustering import ClusteringJob
from lakelog.table.write.dml_support import DmlSupport


class RunningStream(Protocol):
    """What has started when the rows of a stream are written (Spark's StreamingQuery)."""

    def stop(self) -> None:
        """Ends it."""


class Engine(Protocol):
    """Runs queries: the Spark side of a session."""

    def is_spark_relation(self, name: str) -> bool:
        """Whether Spark itself knows a view or table of this (dotted) name: a temporary view, a Spark table.

        For a name of one part a temporary view comes before a lakelog table of that name.
        """

    def run_query(self, plan: QueryPlan) -> object:
        """Makes a temporary view of each source of the plan, runs its text, returns the DataFrame.

        With ``plan.lasting`` the views must outlive the call (the text made a view on them).
        """

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: dict[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
    ) -> RunningStream | None:
        """Writes the rows of the plan into the table; ``columns`` name the table's columns in the query's order.

        ``partition`` are partition columns that every row has this value in (text, None for NULL). ``overwrite``
        replaces these partitions; without any, those that the rows have or the whole table.
        """

    def columns_of(self, plan: QueryPlan) -> Sequence[tuple[str, DataType]]:
        """(name, type) of what a query answers, row kinds left out; all may be NULL. Raises UnsupportedFeature."""

    def millis_of(self, expression: str) -> int:
        """The time that an expression without columns is, in ms since 1970. Raises InvalidRequest for NULL."""

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Column → its type as the engine writes it, of those that are no arrays, maps or structs."""

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        """The data files of a table without a primary key that a plan names in its one column; all without a plan.

        Raises UnsupportedFeature when its files cannot be replaced.
        """

    def kept(self, plan: QueryPlan) -> AbstractContextManager[str]:
        """Runs a query now, and keeps its rows under the name of a view that is there in the block."""

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> None:
        """Writes the rows of the plan in place of data files, in one snapshot. Raises CommitConflict."""

    def write_sorted(self, files: ClusteringJob) -> None:
        """Writes the rows of data files again, laid out by columns, in one snapshot. Raises CommitConflict."""

    def cache_table(self, table: Identifier, level: str, lazy: bool) -> None:
        """Keeps the rows of a table in the engine's memory, read now or, when ``lazy``, by the next query.

        ``level`` is a name of Spark's StorageLevel. Raises InvalidRequest, UnsupportedFeature.
        """

    def uncache_table(self, table: Identifier | None) -> None:
        """Lets the rows of a table go, of all tables without one; those that are not kept stay so."""

    def pass_through(self, text: str) -> object:
        """Hands a statement that is not lakelog's to Spark as it is."""

    def update_catalogs(self) -> None:
        """Called when the session has another catalog than before: readers and writers by name are to know it, too."""

    def executor(self) -> Executor | None:
        """Spark's executors, for compactions; None where this process is to do them."""


class Tables(Protocol):
    """Names, schemas and options of lakelog's tables, in one or several catalogs.

    ``catalog`` is a catalog's name as identifiers have it: "" is the one that the session began with.
    """

    def list_catalogs(self) -> list[str]:
        """Names of the catalogs that came later, sorted."""

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a catalog of a name that is free. Raises InvalidOption, NotInstalled."""

    def drop_catalog(self, name: str) -> None:
        """Forgets a catalog that came later; nothing in it changes."""

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The columns of a read with these options (the newest ones without), None if there is no such table."""

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Creates the table. Raises AlreadyExists."""

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        """Drops the table. Raises NotFound unless if_exists."""

    def truncate(self, identifier: Identifier, partition: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        """Removes all rows, or those of the partitions with these values. Raises NotFound when none has them."""

    def drop_partitions(
        self,
        identifier: Identifier,
        partitions: Sequence[Mapping[str, str | None]],
        if_exists: bool,
        options: Mapping[str, str],
    ) -> None:
        """Removes partitions with these values of partition columns. Raises NotFound unless if_exists."""

    def delete(self, identifier: Identifier, condition: str | None, options: Mapping[str, str]) -> None:
        """Deletes the partitions that meet a condition on partition columns; all rows without one."""

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics of the table and of some columns (None: of all), and commits them."""

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> object:
        """Gives the table one new schema with all changes. Raises NotFound, InvalidRequest for what is refused."""

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames the table. Raises NotFound, AlreadyExists."""

    def list_tables(self, database: str, catalog: str, /) -> list[str]:
        """Table names of a database. Raises NotFound."""

    def list_databases(self, catalog: str, /) -> list[str]:
        """Names of all databases."""

    def create_database(self, name: str, if_not_exists: bool, catalog: str) -> None:
        """Creates the database. Raises AlreadyExists."""

    def drop_database(self, name: str, if_exists: bool, cascade: bool, catalog: str) -> None:
        """Drops the database, with its tables when cascade. Raises NotFound unless if_exists."""

    def describe(self, identifier: Identifier, extended: bool) -> Sequence[tuple[str, str, str | None]]:
        """(name, type, comment) of each column; extended adds rows about the table. Raises NotFound."""

    def open(self, identifier: Identifier, /) -> DynamicTable:
        """The table itself, for procedures. Raises NotFound."""

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> DmlSupport:
        """How rows of the table change by UPDATE, DELETE and MERGE. Raises UnsupportedFeature for what they cannot."""

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checked options with canonical keys; scope is ``table``, ``read`` or ``write``. Raises InvalidOption."""
