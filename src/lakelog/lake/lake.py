"""``lakelog.connect``: one object for a warehouse; starts Spark only when a statement needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import LakelogError, NotFound
from lakelog.io.shared_counts import share_counts
from lakelog.lake.catalog_tables import CatalogTables
from lakelog.lake.lazy_engine import LakeStatements, LazyEngine
from lakelog.lake.table import Table
from lakelog.options.log import EMIT_MODE
from lakelog.sql.parse import Session
from lakelog.table.catalog_config import WAREHOUSE
from lakelog.table.health.health import TableHealth, unreadable_health
from lakelog.table.lookup.stats import lookup_stats
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.write.table_writer import TableWriter

LOW_LATENCY: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""Settings for a local session that runs streams only. The JVM's optimising compiler does not compete with
micro-batches for the cores (a quarter less latency in the first minutes); long batch queries lose speed. Checkpoint
files on a local disk get no checksum files, and no process is started to set each one's permissions (four a
micro-batch); Spark's own connectors to S3 and Azure, which buffer uploads on the local disk, cannot write then (RFC 4).
"""


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
        catalogs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.warehouse = warehouse
        share_counts()
        self._tables = CatalogTables(warehouse, storage_options, catalog_options)
        self._engine = LazyEngine(self._tables, catalog, spark, dict(settings or {}))
        self._session = Session(self._tables, self._engine, catalog)
        for name, options in (catalogs or {}).items():
            self._session.create_catalog(name, options)
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
        table = self._open(name)
        return Table(
            table,
            lambda of, scan, condition: self._engine.started.scan(of, scan, condition),
            self._tables.alter_table,
            self._engine.executor,
            LakeStatements(self._session, self._engine),
        )

    def health(self, name: str, with_log: bool = True) -> TableHealth:
        """The health of a table; of one that cannot be read, that. Raises NotFound for a table that is not there."""
        try:
            return self.table(name).health(with_log)
        except LakelogError as why:
            if isinstance(why, NotFound) and not self._is_there(name):
                raise
            return unreadable_health(name, why)

    def _is_there(self, name: str) -> bool:
        try:
            self._open(name)
        except NotFound:
            return False
        except LakelogError:
            return True
        return True

    def read_stream(self, name: str, options: Mapping[str, str] | None = None) -> Any:
        """A streaming DataFrame of a table's changes, with ``_row_kind``; starts Spark if nothing has.

        By default of the files: the newest snapshot whole, then the changes of each new one; ``scan.mode`` and the
        other read options say where it begins. With ``read.mode`` = ``log`` of the log.
        """
        table = self._open(name, canonical_options(options or {}, "read"))
        return self._engine.started.read_stream(table)

    def lookup_join(
        self,
        frame: Any,
        name: str,
        on: str | Sequence[str] | Mapping[str, str],
        how: str = "inner",
        columns: Sequence[str] | None = None,
        prefix: str = "",
        options: Mapping[str, str] | None = None,
    ) -> Any:
        """A DataFrame, streaming or not, joined with the rows that a keyed table has when each of its rows is read.

        ``on`` names columns of the table's primary key, any of them: a column of both sides, several, or a map from the
        frame's columns to the table's. ``how`` is ``inner`` or ``left``. ``columns`` of the table are added (all but
        those of ``on`` unless given), their names behind ``prefix``. NULL finds nothing. ``options`` are
        ``lookup.…`` and other read options. Later changes of the table do not change what was joined before. Raises
        InvalidRequest for a table without a primary key, other columns, or two columns of one name; InvalidSchema.
        """
        table = self._open(name, canonical_options(options or {}, "read"))
        return self._engine.started.lookup_join(frame, table, on, how, columns, prefix)

    def lookup_stats(self, name: str, join: str | None = None) -> pa.Table:
        """How often lookup joins with a table find something and how fresh that is: one row a join.

        ``join`` is the ``lookup.name`` of one. The workers write their figures once a second, below the table's
        directory; those of a day ago go with orphan cleaning.
        """
        return lookup_stats(self._open(name), join)

    def write(self, frame: Any, name: str, options: Mapping[str, str] | None = None) -> None:
        """Appends the rows of a batch DataFrame to a table, columns by name, as one snapshot.

        A column ``_row_kind`` (+I, -U, +U, -D) makes them changes. ``options`` are write options. What
        ``frame.write.format("lakelog").mode("append").save(name)`` does, behind the shuffle that ``write.shuffle``
        asks for. Rows of this process (Arrow, pandas, polars: ``__arrow_c_stream__``) are written by it, without Spark.
        Raises InvalidSchema, InvalidRequest for a stream, and what Spark makes of an error in its tasks.
        """
        table = self._open(name, canonical_options(options or {}, "write"))
        table.check_writable()
        if hasattr(type(frame), "isStreaming"):
            self._engine.started.write(table, frame)
            return
        with TableWriter(table) as writer:
            writer.write(frame)

    def write_stream(
        self, frame: Any, name: str, checkpoint: str | None = None, options: Mapping[str, str] | None = None
    ) -> Any:
        """Starts a streaming query that writes a streaming DataFrame into a table; returns the StreamingQuery.

        The query's id, kept in ``checkpoint`` (by default beside the table), is the writer's identity: starting it
        again goes on where it stopped.
        """
        table = self._open(name, canonical_options(options or {}, "write"))
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
        table = self._open(name, canonical_options(options or {}, "read"))
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
        table = self._open(name, hints)
        table.check_writable()
        return self._engine.started_with_connector.write_realtime(table, frame, checkpoint, real_time)

    def attach(self) -> None:
        """Lets ``spark.sql`` of the session run ``sql`` of this lake, until ``close``; see ``lakelog.attach``."""
        self._engine.started.attach(self.run)

    def add_catalog(
        self,
        name: str,
        warehouse: str,
        *,
        catalog_options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Lets this lake know a further catalog: ``name.db.table`` in SQL and here, as CREATE CATALOG does.

        The options are those of ``connect``; none is taken over from the first catalog. Raises AlreadyExists,
        InvalidRequest for a bad name, and what ``connect`` raises.
        """
        self._session.create_catalog(name, {**(catalog_options or {}), **(storage_options or {}), WAREHOUSE: warehouse})

    def drop_catalog(self, name: str) -> None:
        """Forgets a further catalog; nothing in it changes. Raises NotFound, InvalidRequest for the current one."""
        self._session.drop_catalog(name)

    def list_catalogs(self) -> list[str]:
        """Names of the catalogs, the first one first."""
        return self._session.catalogs.all()

    def list_tables(self, database: str | None = None, catalog: str | None = None) -> list[str]:
        """Names ``db.table`` of one database or of all in a catalog (None: the current one), as ``table`` takes them.

        Names of another catalog than the first begin with it, and all do while another one is current. Raises NotFound.
        """
        there = self._catalog(catalog)
        databases = [database] if database else self._tables.list_databases(there)
        found = [Identifier(db, t, there) for db in databases for t in self._tables.list_tables(db, there)]
        return [".".join(map(_quoted_if_needed, self._session.parts_of(identifier))) for identifier in found]

    def list_databases(self, catalog: str | None = None) -> list[str]:
        """Database names of a catalog (None: the current one). Raises NotFound."""
        return self._tables.list_databases(self._catalog(catalog))

    def executor(self, start: bool = False) -> Executor | None:
        """Where compactions run: on Spark's executors if this lake has a session that is worth it, or ``start`` starts
        one; None: in this process. For services.
        """
        return self._engine.executor(start)

    def _catalog(self, name: str | None) -> str:
        return self._session.current_catalog if name is None else self._session.catalogs.need(name)

    def _open(self, name: str, hints: Mapping[str, str] | None = None) -> DynamicTable:
        return self._tables.open(self._session.identifier(name), hints)

    def close(self) -> None:
        """Stops the Spark session that this lake started; a session that was given stays."""
        self._engine.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _quoted_if_needed(part: str) -> str:
    """A part of a name as ``Lake.table`` takes it; tables of other engines may have dots in theirs."""
    return f"`{part.replace('`', '``')}`" if {".", "`"} & set(part) else part


def connect(
    spark: Any = None,
    warehouse: str = "./warehouse",
    *,
    settings: Mapping[str, str] | None = None,
    catalog: str = "lakelog",
    storage_options: Mapping[str, str] | None = None,
    catalog_options: Mapping[str, str] | None = None,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
) -> Lake:
    """Opens a warehouse.

    ``spark`` is a session to use (classic or Connect); without one a local session is started when something needs it,
    with
    ``settings`` on top of lakelog's. ``warehouse`` is a directory, or a URI such as ``s3://bucket/warehouse`` or
    ``hdfs://namenode:8020/warehouse``; it is made when the first table is. ``catalog`` names it in SQL.
    ``storage_options`` say how to reach the storage (``s3.endpoint``, ``s3.access-key``, …); they are kept in no table
    and printed nowhere. ``catalog_options`` (``catalog.type``, ``catalog.uri``, …) say what knows the names of tables:
    the directories, or a database. ``catalogs`` are further ones by name, each with its ``warehouse`` and all its
    options in one map: ``{"prod": {"warehouse": "s3://…", "s3.endpoint": …, "catalog.type": "sql", …}}``. Raises
    UnsupportedFeature for a scheme that is not known, InvalidOption, and NotInstalled with the pip command.
    """
    return Lake(warehouse, spark, settings, catalog, storage_options, catalog_options, catalogs)
