"""``lakelog.connect``: one object for a warehouse; starts Spark only when a statement needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.errors import NotFound
from lakelog.lake.describe import describe
from lakelog.lake.table import Table
from lakelog.options.log import EMIT_MODE
from lakelog.options.registry import Registry
from lakelog.spec.schema import TableSchema
from lakelog.spec.schema_change import SchemaChange
from lakelog.spec.types import DataType
from lakelog.sql.engine import Engine
from lakelog.sql.filter_text import parse_filter
from lakelog.sql.plan import QueryPlan
from lakelog.sql.session import Session
from lakelog.table.alter import alter_table, rename_table
from lakelog.table.analyze import analyze
from lakelog.table.compaction_task import Executor
from lakelog.table.create import create_table, drop_table
from lakelog.table.dynamic_table import DynamicTable
from lakelog.table.log_options import canonical_options
from lakelog.table.open import base_of, identifier_of, open_catalog, open_table
from lakelog.table.overwrite import delete_partitions, drop_partitions, truncate
from lakelog.table.row_changes import Changeable, changeable
from lakelog.table.views import scan_of

LOW_LATENCY: Mapping[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Settings for a local session that runs streams only: the JVM's optimising compiler does not compete with
micro-batches for the cores (a quarter less latency in the first minutes); long batch queries lose speed."""

ENGINES: Registry[Engine] = Registry("engine", {"spark": "lakelog.spark.engine:SparkEngine"})


class CatalogTables:
    """The catalog as the SQL session sees it."""

    def __init__(
        self,
        warehouse: str,
        storage_options: Mapping[str, str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
    ) -> None:
        self.catalog = open_catalog(warehouse, storage_options, catalog_options)

    def open(self, identifier: Identifier, hints: Mapping[str, str] | None = None) -> DynamicTable:
        """The table, branch or system table of this name; raises NotFound."""
        return open_table(self.catalog, identifier, hints)

    def load_schema(self, identifier: Identifier, options: Mapping[str, str] | None = None) -> TableSchema | None:
        """The columns that a read with these options has, None when there is no such table."""
        if "$" not in identifier.table and not options:
            try:
                return self.catalog.load_table(identifier).schema
            except NotFound:
                return None
        try:
            self.catalog.load_table(base_of(identifier))
        except NotFound:
            return None
        return scan_of(self.open(identifier, options)).row_schema

    def create_table(self, identifier: Identifier, schema: TableSchema, if_not_exists: bool) -> None:
        """Makes a table and its log."""
        create_table(self.catalog, identifier, schema, if_not_exists)

    def drop_table(self, identifier: Identifier, if_exists: bool, purge: bool) -> None:
        """Drops a table and, where it is ours, its log."""
        drop_table(self.catalog, identifier, if_exists, purge)

    def truncate(self, identifier: Identifier, partition: Mapping[str, str | None], options: Mapping[str, str]) -> None:
        """Removes all rows, or those of some partitions."""
        truncate(self.open(identifier, options), partition)

    def drop_partitions(
        self,
        identifier: Identifier,
        partitions: Sequence[Mapping[str, str | None]],
        if_exists: bool,
        options: Mapping[str, str],
    ) -> None:
        """Removes partitions."""
        drop_partitions(self.open(identifier, options), partitions, if_exists)

    def delete(self, identifier: Identifier, condition: str | None, options: Mapping[str, str]) -> None:
        """Deletes whole partitions."""
        table = self.open(identifier, options)
        delete_partitions(table, None if condition is None else parse_filter(condition, table.schema))

    def changeable(self, identifier: Identifier, actions: Collection[str], options: Mapping[str, str]) -> Changeable:
        """How rows change by these actions."""
        return changeable(self.open(identifier, options), actions)

    def analyze(self, identifier: Identifier, columns: Sequence[str] | None) -> None:
        """Computes statistics and commits them."""
        analyze(self.open(identifier), columns)

    def alter_table(self, identifier: Identifier, changes: Sequence[SchemaChange]) -> TableLocation:
        """Changes a table's schema; answers with the table as it is then."""
        return alter_table(self.catalog, identifier, changes)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        """Renames a table."""
        rename_table(self.catalog, identifier, new)

    def list_tables(self, database: str) -> list[str]:
        """Table names of a database."""
        return self.catalog.list_tables(database)

    def list_databases(self) -> list[str]:
        """Database names."""
        return self.catalog.list_databases()

    def create_database(self, name: str, if_not_exists: bool) -> None:
        """Makes a database."""
        self.catalog.create_database(name, if_not_exists)

    def drop_database(self, name: str, if_exists: bool, cascade: bool) -> None:
        """Drops a database; with ``cascade`` its tables and their logs first."""
        if cascade and name in self.catalog.list_databases():
            for table in self.catalog.list_tables(name):
                drop_table(self.catalog, Identifier(name, table), if_exists=True)
        self.catalog.drop_database(name, if_exists, cascade)

    def describe(self, identifier: Identifier, extended: bool) -> list[tuple[str, str, str]]:
        """(column, type, comment) rows."""
        return describe(self.open(identifier), extended)

    def canonical_options(self, given: Mapping[str, str], scope: str) -> dict[str, str]:
        """Checks options."""
        return canonical_options(given, scope)


class LazyEngine:
    """The engine as the SQL session sees it: Spark is started by the first call."""

    def __init__(
        self,
        tables: CatalogTables,
        warehouse: str,
        spark: Any | None,
        settings: Mapping[str, str],
        storage_options: Mapping[str, str],
    ) -> None:
        self._arguments = (tables, warehouse, spark, settings, storage_options)
        self._owned = spark is None
        self._engine: Any = None

    @property
    def started(self) -> Any:
        """The real engine."""
        if self._engine is None:
            self._engine = ENGINES.create("spark", *self._arguments)
        return self._engine

    @property
    def started_with_connector(self) -> Any:
        """The real engine; a session that starts now gets Spark's Kafka connector."""
        if self._engine is None:
            self._engine = ENGINES.create("spark", *self._arguments, with_connector=True)
        return self._engine

    def is_spark_relation(self, name: str) -> bool:
        """Whether Spark knows a view or table of this name; without a session it knows none."""
        if self._engine is None and self._owned:
            return False
        return bool(self.started.is_spark_relation(name))

    def run_query(self, plan: QueryPlan) -> object:
        """Runs a query on Spark."""
        result: object = self.started.run_query(plan)
        return result

    def insert(
        self,
        table: Identifier,
        plan: QueryPlan,
        columns: tuple[str, ...] | None,
        options: dict[str, str],
        partition: Mapping[str, str | None],
        overwrite: bool,
    ) -> object:
        """Writes a query's rows on Spark."""
        result: object = self.started.insert(table, plan, columns, options, partition, overwrite)
        return result

    def columns_of(self, plan: QueryPlan) -> Sequence[tuple[str, DataType]]:
        """The columns of a query."""
        result: Sequence[tuple[str, DataType]] = self.started.columns_of(plan)
        return result

    def simple_types(self, table: Identifier) -> Mapping[str, str]:
        """Types of columns as Spark writes them."""
        result: Mapping[str, str] = self.started.simple_types(table)
        return result

    def files_of(self, table: Identifier, plan: QueryPlan | None, options: Mapping[str, str]) -> Sequence[str]:
        """The data files that a plan names."""
        result: Sequence[str] = self.started.files_of(table, plan, options)
        return result

    def replace_files(
        self, table: Identifier, plan: QueryPlan, files: Sequence[str], options: Mapping[str, str]
    ) -> None:
        """Writes a query's rows in place of data files, on Spark."""
        self.started.replace_files(table, plan, files, options)

    def pass_through(self, text: str) -> object:
        """Hands a statement to Spark."""
        result: object = self.started.pass_through(text)
        return result

    def executor(self, start: bool = False) -> Executor | None:
        """Spark's executors, for compactions; None without a session or where it is no gain, unless ``start``."""
        if self._engine is None and self._owned and not start:
            return None
        found: Executor | None = self.started.executor(wanted=start)
        return found

    def close(self) -> None:
        """Stops a session that was started here; another one has its own ``spark.sql`` again."""
        if self._engine is not None:
            if self._owned:
                self._engine.stop()
            else:
                self._engine.detach()
        self._engine = None


class Lake:
    """A warehouse with its tables, its SQL, and (when first needed) its Spark session."""

    def __init__(
        self,
        warehouse: str,
        spark: Any | None = None,
        settings: Mapping[str, str] | None = None,
        catalog: str = "lakelog",
        storage_options: Mapping[str, str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
    ) -> None:
        self.warehouse = warehouse
        self._tables = CatalogTables(warehouse, storage_options, catalog_options)
        self._engine = LazyEngine(self._tables, warehouse, spark, dict(settings or {}), dict(storage_options or {}))
        self._session = Session(self._tables, self._engine, catalog)
        if spark is not None:  # format("lakelog") of this session knows the warehouse from now on
            _ = self._engine.started

    @property
    def spark(self) -> Any:
        """The Spark session; started when first asked for."""
        return self._engine.started.spark

    def run(self, text: str) -> list[Any]:
        """Runs a script; one result per statement.

        A result is a DataFrame (queries; a streaming one when a log hint is given), a pyarrow Table (SHOW, DESCRIBE),
        a StreamingQuery (INSERT from a stream) or None. Raises UnsupportedStatement with the place in the text, and
        the errors of each statement.
        """
        return self._session.run(text)

    def sql(self, text: str) -> Any:
        """Runs a script and returns the last statement's result."""
        results = self.run(text)
        return results[-1] if results else None

    def table(self, name: str) -> Table:
        """The table of this name (``t``, ``db.t``, ``catalog.db.t``). Raises NotFound with the nearest name."""
        table = self._tables.open(identifier_of(name, self._session.database))
        return Table(
            table,
            lambda of, scan, condition: self._engine.started.scan(of, scan, condition),
            self._tables.alter_table,
            self._engine.executor,
        )

    def read_stream(self, name: str, options: Mapping[str, str] | None = None) -> Any:
        """A streaming DataFrame of a table's changes, with ``_row_kind``; starts Spark if nothing has.

        By default of the files: the newest snapshot whole, then the changes of each new one; ``scan.mode`` and the
        other read options say where it begins. With ``read.mode`` = ``log`` of the log.
        """
        table = self._tables.open(identifier_of(name, self._session.database), canonical_options(options or {}, "read"))
        return self._engine.started.read_stream(table)

    def write(self, frame: Any, name: str, options: Mapping[str, str] | None = None) -> None:
        """Appends the rows of a batch DataFrame to a table, columns by name, as one snapshot.

        A column ``_row_kind`` (+I, -U, +U, -D) makes them changes. ``options`` are write options. What
        ``frame.write.format("lakelog").mode("append").save(name)`` does, behind the shuffle that ``write.shuffle``
        asks for. Raises InvalidSchema, InvalidRequest for a stream, and what Spark makes of an error in its tasks.
        """
        table = self._tables.open(
            identifier_of(name, self._session.database), canonical_options(options or {}, "write")
        )
        table.check_writable()
        self._engine.started.write(table, frame)

    def write_stream(
        self, frame: Any, name: str, checkpoint: str | None = None, options: Mapping[str, str] | None = None
    ) -> Any:
        """Starts a streaming query that writes a streaming DataFrame into a table; returns the StreamingQuery.

        The query's id, kept in ``checkpoint`` (by default beside the table), is the writer's identity: starting it
        again goes on where it stopped.
        """
        table = self._tables.open(
            identifier_of(name, self._session.database), canonical_options(options or {}, "write")
        )
        return self._engine.started.start_stream(table, frame, checkpoint)

    def read_realtime(
        self, name: str, columns: Sequence[str] | None = None, options: Mapping[str, str] | None = None
    ) -> Any:
        """A streaming DataFrame of a table's Kafka log that runs under Spark's real-time trigger: milliseconds.

        The changes of ``read_stream`` with ``read.mode`` = ``log``, made by Spark's own Kafka source and operators
        alone; also for micro-batches. ``columns`` are those to decode, ``options`` read options (``scan.startup.mode``
        …). A session that starts here finds the connector by itself. Raises NotInstalled for one without it,
        InvalidRequest for a table whose log is not on Kafka, UnsupportedFeature for another format than debezium-json.
        """
        table = self._tables.open(identifier_of(name, self._session.database), canonical_options(options or {}, "read"))
        return self._engine.started_with_connector.read_realtime(table, columns)

    def write_realtime(
        self,
        frame: Any,
        name: str,
        checkpoint: str | None = None,
        options: Mapping[str, str] | None = None,
        real_time: str | None = "5 minutes",
    ) -> Any:
        """Starts a query that writes a streaming DataFrame to a table's Kafka log first; returns the StreamingQuery.

        Rows are in the log after milliseconds; files are made of them by ``Table.follow``. Spark's Kafka sink writes
        every row at least once: a table with a key is right, one without may have rows twice after a failure.
        ``real_time`` is the length of Spark's batches, after which it keeps where it is; None: micro-batches. Raises as
        ``read_realtime``, and InvalidSchema for columns that do not fit.
        """
        hints = {**canonical_options(options or {}, "write"), EMIT_MODE.key: "log"}
        table = self._tables.open(identifier_of(name, self._session.database), hints)
        table.check_writable()
        return self._engine.started_with_connector.write_realtime(table, frame, checkpoint, real_time)

    def attach(self) -> None:
        """Lets ``spark.sql`` of the session run ``sql`` of this lake, until ``close``; see ``lakelog.attach``."""
        self._engine.started.attach(self.run)

    def list_tables(self, database: str | None = None) -> list[str]:
        """Names ``db.table`` of one database or of all."""
        databases = [database] if database else self._tables.list_databases()
        return [f"{db}.{t}" for db in databases for t in self._tables.list_tables(db)]

    def list_databases(self) -> list[str]:
        """Database names."""
        return self._tables.list_databases()

    def close(self) -> None:
        """Stops the Spark session that this lake started; a session that was given stays."""
        self._engine.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def connect(
    spark: Any = None,
    warehouse: str = "./warehouse",
    *,
    settings: Mapping[str, str] | None = None,
    catalog: str = "lakelog",
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
) -> Lake:
    """Opens a warehouse.

    ``spark`` is a session to use (classic or Connect); without one a local session is started when something needs it,
    with
    ``settings`` on top of lakelog's. ``warehouse`` is a directory, or a URI such as ``s3://bucket/warehouse`` or
    ``hdfs://namenode:8020/warehouse``; it is made when the first table is. ``catalog`` names it in SQL.
    ``storage_options`` say how to reach the storage (``s3.endpoint``, ``s3.access-key``, …); they are kept in no table
    and printed nowhere. ``catalog_options`` (``catalog.type``, ``catalog.uri``, …) say what knows the names of tables:
    the directories, or a database. Raises UnsupportedFeature for a scheme that is not known, InvalidOption, and
    NotInstalled with the pip command.
    """
    return Lake(warehouse, spark, settings, catalog, storage_options, catalog_options)
