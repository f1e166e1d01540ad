"""``lakelog.connect``: one object for a warehouse; starts Spark only when a statement needs it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest, LakelogError, NotFound
from lakelog.io.shared_counts import share_counts
from lakelog.lake.arguments import with_checked_arguments
from lakelog.lake.copies import LakeCopies
from lakelog.lake.cut import LakeCut
from lakelog.lake.definitions import LakeDefinitions
from lakelog.lake.lazy_engine import EngineName, LakeStatements, LazyEngine
from lakelog.lake.output.result import Result, arrow_of, with_methods
from lakelog.lake.table import Table
from lakelog.lake.views import Views
from lakelog.options.log import EMIT_MODE
from lakelog.options.notebook import rows_html
from lakelog.options.secrets import without_password
from lakelog.options.table import Missing
from lakelog.sql.parse import Session, parse_script
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.table.catalog_config import WAREHOUSE
from lakelog.table.cuts.reading import newest_cut
from lakelog.table.health.health import TableHealth, unreadable_health
from lakelog.table.lookup.stats import lookup_stats
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.log_options import canonical_options
from lakelog.table.model.row_counts import RowCounts

if TYPE_CHECKING:
    from lakelog.spark.runtime.public_types import DataFrame, SparkSession, StreamingQuery

Place = str | os.PathLike[str]
"""A directory or a URI."""


@with_checked_arguments
class Lake(LakeDefinitions, LakeCopies):
    """A warehouse with its tables, its SQL, and a Spark session that starts when first needed."""

    def __init__(
        self,
        warehouse: Place,
        spark: Any | None = None,
        settings: Mapping[str, str] | None = None,
        catalog: str = "lakelog",
        storage_options: Mapping[str, str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
        catalogs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.warehouse = warehouse = warehouse_text(warehouse)
        share_counts()
        self._tables = CatalogTables(warehouse, storage_options, catalog_options)
        self._engine = LazyEngine(self._tables, catalog, spark, dict(settings or {}))
        self._session = Session(self._tables, self._engine, catalog)
        for name, options in (catalogs or {}).items():
            self._session.create_catalog(name, options)
        if spark is not None:  # registers the warehouse with format("lakelog")
            _ = self._engine.started

    @property
    def spark(self) -> SparkSession:
        """The Spark session; started on first access."""
        session: SparkSession = self._engine.started.spark
        return session

    def run(self, text: str) -> list[Any]:
        """Runs a script; one result per statement.

        A result is the rows of a query as in ``sql`` (a streaming DataFrame with a log hint), a pyarrow Table (SHOW,
        DESCRIBE), a StreamingQuery (INSERT from a stream) or None. Raises UnsupportedStatement with the position in the
        text, and the errors of each statement.
        """
        return [self._engine.statement(partial(s.run, self._session)) for s in parse_script(text)]

    def sql(self, text: str, engine: EngineName | None = None) -> Result:
        """Runs a script and returns the last statement's result, with the methods of ``Result`` (``show``, …)

        A query on Spark returns its DataFrame, with these methods added to the object. Other statements return their
        rows, which have all attributes of a pyarrow Table. If this process could start Spark, the rows of a query also
        have the methods of its DataFrame: such a method starts Spark, which runs the query again. An INSERT from a
        stream returns Spark's StreamingQuery.

        ``engine`` is ``local`` for statements that run in this process, also beside Spark, or ``spark``. By default it
        is Spark if a session runs. Without one it is this process for what it can run, until the files or the result
        are larger than ``sql.local-size``, and Spark for the rest. EXPLAIN says which engine runs a query, and why.
        Raises UnsupportedFeature for a statement that ``local`` cannot run, and the errors of ``run``.

        ```pycon
        >>> lake.sql("select id, name from db.t where id > 1").collect()
        [Row(id=2, name='milk')]
        ```
        """
        with self._engine.wanting(engine):
            results = self.run(text)
        result: Result = with_methods(results[-1] if results else None)
        return result

    def table(self, name: str) -> Table:
        """The table of this name (``t``, ``db.t``, ``catalog.db.t``). Raises NotFound with the nearest name.

        ```pycon
        >>> lake.table("db.t").count()
        2
        ```
        """
        table = self._open(name)
        return Table(
            table,
            lambda of, scan, condition: self._engine.started.scan(of, scan, condition),
            self._tables.alter_table,
            self._engine.executor,
            LakeStatements(self._session, self._engine),
            lambda of, frame, overwrite: self._engine.started.write(of, frame, overwrite),
        )

    @property
    def views(self) -> Views:
        """The materialized views of this lake."""
        return Views(self._session)

    def cut(self, names: Sequence[str]) -> LakeCut:
        """The newest cut that all these tables have: their rows at one moment, each transaction whole or not at all.

        Tables that one ``lakelog ingest`` fills have cuts. The result names the cut for any read
        (``scan(options=cut.options)``, ``'read.cut'`` in SQL). Raises NotFound naming the tables if they have no cut,
        or none in common; InvalidRequest without a name.
        """
        if not names:
            raise InvalidRequest("Lake.cut(names=[]): name the tables that are read together")
        return LakeCut(newest_cut([self._open(name).store for name in names]))

    def health(self, name: str, with_log: bool = True) -> TableHealth:
        """The health of a table, readable or not. Raises NotFound if the table does not exist."""
        try:
            return self.table(name).health(with_log)
        except LakelogError as why:
            if isinstance(why, NotFound) and not self.table_exists(name):
                raise
            return unreadable_health(name, why)

    def read_stream(self, name: str, options: Mapping[str, str] | None = None) -> DataFrame:
        """A streaming DataFrame of a table's changes, with ``_row_kind``; starts Spark if needed.

        By default the stream reads the files. It starts with the full newest snapshot and continues with the changes of
        each new one. ``scan.mode`` and the other read options set the start. With ``read.mode`` = ``log`` it reads the
        log.
        """
        table = self._open(name, canonical_options(options or {}, "read"))
        stream: DataFrame = self._engine.started.read_stream(table)
        return stream

    def lookup_join(
        self,
        frame: DataFrame,
        name: str,
        on: str | Sequence[str] | Mapping[str, str],
        how: str = "inner",
        columns: Sequence[str] | None = None,
        prefix: str = "",
        options: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """A batch or streaming DataFrame joined with the rows of a keyed table as of the time each row is read.

        ``on`` names columns of the table's primary key, any subset of them. It is one column of both sides, several, or
        a map from the frame's columns to the table's. ``how`` is ``inner`` or ``left``. ``columns`` are the table
        columns to add (default: all except those of ``on``), prefixed with ``prefix``. NULL matches nothing.
        ``options`` are ``lookup.…`` and other read options. Later changes of the table do not affect rows that are
        already joined. Raises InvalidRequest for a table without a primary key, other columns, or duplicate column
        names; InvalidSchema.
        """
        table = self._open(name, canonical_options(options or {}, "read"))
        joined: DataFrame = self._engine.started.lookup_join(frame, table, on, how, columns, prefix)
        return joined

    def lookup_stats(self, name: str, join: str | None = None) -> pa.Table:
        """Hit rate and freshness of the lookup joins with a table, one row per join.

        ``join`` is the ``lookup.name`` of one join. The workers write their statistics once a second, under the table's
        directory. Orphan cleaning removes statistics older than a day.
        """
        return lookup_stats(self._open(name), join)

    def write(
        self,
        frame: Any,
        name: str,
        options: Mapping[str, str] | None = None,
        *,
        create: bool = False,
        overwrite: bool | Mapping[str, object] = False,
        missing: Missing | None = None,
    ) -> RowCounts:
        """Writes the rows of a batch DataFrame into a table, columns by name, as one snapshot; returns their counts.

        A column ``_row_kind`` (+I, -U, +U, -D) makes them changes. ``options`` are write options. Equivalent to
        ``frame.write.format("lakelog").mode("append").save(name)``, after the shuffle that ``write.shuffle`` requests.
        This process writes in-memory rows (Arrow, pandas, polars: ``__arrow_c_stream__``) itself, without Spark. Raises
        InvalidSchema, InvalidRequest for a stream, NotFound, and the errors that Spark raises for failed tasks.

        With ``create`` a missing table is created first, with the columns of the rows and no primary key, and dropped
        again if the write fails. With ``overwrite`` the rows replace the table, or partitions of it, as in
        ``Table.writer``. ``missing`` is that of ``Table.writer``, too.

        ```pycon
        >>> lake.write(pl.DataFrame({"id": [3], "name": ["rum"]}), "db.t")["num_inserted_rows"]
        1
        >>> _ = lake.write(pl.DataFrame({"n": [1, 2]}), "db.new", create=True)
        ```
        """
        is_spark = hasattr(type(frame), "isStreaming")
        if create and not self.table_exists(name):
            with self._created(name, arrow_of(frame.limit(0)) if is_spark else frame):
                return self.write(frame, name, options, overwrite=overwrite, missing=missing)
        return self.table(name).write(frame, overwrite, options, missing=missing)

    @contextlib.contextmanager
    def _created(self, name: str, rows: Any) -> Iterator[None]:
        """Context with a new table for these rows; drops it after a failure, unless it has been used by then."""
        self.create_table(name, rows, if_not_exists=True)
        try:
            yield
        except BaseException:
            with contextlib.suppress(LakelogError):
                table = self._open(name, {})
                is_used = table.store.latest_snapshot() is not None or table.registered.writers() or table.decided.all()
                if not is_used:
                    self.drop_table(name, if_exists=True)
            raise

    def write_stream(
        self, frame: DataFrame, name: str, checkpoint: str | None = None, options: Mapping[str, str] | None = None
    ) -> StreamingQuery:
        """Starts a streaming query that writes a streaming DataFrame into a table; returns the StreamingQuery.

        The query's id, stored in ``checkpoint`` (by default next to the table), identifies the writer. A restarted
        query resumes from its checkpoint.
        """
        table = self._open(name, canonical_options(options or {}, "write"))
        query: StreamingQuery = self._engine.started.start_stream(table, frame, checkpoint)
        return query

    def read_realtime(
        self, name: str, columns: Sequence[str] | None = None, options: Mapping[str, str] | None = None
    ) -> DataFrame:
        """A streaming DataFrame of a table's Kafka log for Spark's real-time trigger, with latency in milliseconds.

        It has the changes of ``read_stream`` with ``read.mode`` = ``log``, and uses only Spark's own Kafka source and
        operators. It also runs in micro-batches. ``columns`` are the columns to decode, ``options`` read options
        (``scan.startup.mode`` …). A session that starts here finds the connector by itself. Raises NotInstalled for a
        session without it, InvalidRequest for a table whose log is not on Kafka, UnsupportedFeature for another format
        than debezium-json.
        """
        table = self._open(name, canonical_options(options or {}, "read"))
        stream: DataFrame = self._engine.started_with_connector.read_realtime(table, columns)
        return stream

    def write_realtime(
        self,
        frame: DataFrame,
        name: str,
        checkpoint: str | None = None,
        options: Mapping[str, str] | None = None,
        real_time: str | None = "5 minutes",
    ) -> StreamingQuery:
        """Starts a query that writes a streaming DataFrame to a table's Kafka log first; returns the StreamingQuery.

        Rows reach the log within milliseconds. ``Table.follow`` writes them to files. Spark's Kafka sink writes every
        row at least once. After a failure, a table without a key may contain duplicates; a table with a key does not.
        ``real_time`` is the length of Spark's batches, after which it checkpoints; None means micro-batches. Raises the
        errors of ``read_realtime``, and InvalidSchema for columns that do not fit.
        """
        hints = {**canonical_options(options or {}, "write"), EMIT_MODE.key: "log"}
        table = self._open(name, hints)
        table.check_rows_writable()
        query: StreamingQuery = self._engine.started_with_connector.write_realtime(table, frame, checkpoint, real_time)
        return query

    def attach(self) -> None:
        """Makes the session's methods know this lake's tables, until ``close``; see ``lakelog.attach``."""
        self._engine.started.attach(self.run, LakeStatements(self._session, self._engine, self._attach_to))

    def _attach_to(self, session: Any) -> None:
        """Attaches another lake of the same catalogs to a session."""
        first, *others = self._tables.configs.items()
        settings = {name: {WAREHOUSE: p.warehouse, **p.storage, **p.catalog} for name, p in others}
        config, catalog = first[1], self._session.catalogs.first
        Lake(config.warehouse, session, None, catalog, config.storage, config.catalog, settings).attach()

    def add_catalog(
        self,
        name: str,
        warehouse: Place,
        *,
        catalog_options: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a further catalog, used as ``name.db.table`` in SQL and here, as CREATE CATALOG does.

        The options are those of ``connect``; none is inherited from the first catalog. Raises AlreadyExists,
        InvalidRequest for a bad name, and the errors of ``connect``.
        """
        options_of_lake = {WAREHOUSE: warehouse_text(warehouse)}
        self._session.create_catalog(name, {**(catalog_options or {}), **(storage_options or {}), **options_of_lake})

    def drop_catalog(self, name: str) -> None:
        """Removes a further catalog; its contents stay. Raises NotFound, InvalidRequest for the current one."""
        self._session.drop_catalog(name)

    def list_catalogs(self) -> list[str]:
        """Names of the catalogs, the first one first."""
        return self._session.catalogs.all()

    def list_tables(self, database: str | None = None, catalog: str | None = None) -> list[str]:
        """Names ``db.table`` of one database or of all in a catalog (None: the current one), as ``table`` takes them.

        Names outside the first catalog start with the catalog name. If another catalog is current, all names do. Raises
        NotFound.

        ```pycon
        >>> lake.list_tables("db")
        ['db.t']
        ```
        """
        there = self._catalog(catalog)
        databases = [database] if database else self._tables.list_databases(there)
        identifiers = [Identifier(db, t, there) for db in databases for t in self._tables.list_tables(db, there)]
        return [".".join(map(_quoted_if_needed, self._session.parts_of(identifier))) for identifier in identifiers]

    def list_databases(self, catalog: str | None = None) -> list[str]:
        """Database names of a catalog (None: the current one). Raises NotFound."""
        return self._tables.list_databases(self._catalog(catalog))

    def executor(self, start: bool = False) -> Executor | None:
        """The executor for compactions, for services; None means this process.

        Compactions run on Spark's executors if this lake has a suitable session, or if ``start`` starts one.
        """
        return self._engine.executor(start)

    def _catalog(self, name: str | None) -> str:
        return self._session.current_catalog if name is None else self._session.catalogs.need(name)

    def _open(self, name: str, hints: Mapping[str, str] | None = None) -> DynamicTable:
        return self._tables.open(self._session.identifier(name), hints)

    def close(self) -> None:
        """Stops the Spark session if this lake started it; a session passed in keeps running."""
        self._engine.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "running" if self._engine.is_started else "not started"
        return f"Lake({without_password(self.warehouse)}; Spark: {state})"

    def _repr_html_(self) -> str:
        """The notebook view: the tables by database."""
        tables = ((name, ", ".join(self.list_tables(name)) or "–") for name in self.list_databases())
        return rows_html(repr(self), ("database", "tables"), tables)


def _quoted_if_needed(part: str) -> str:
    """A part of a name as ``Lake.table`` takes it, quoted if a table of another engine has dots in its name."""
    return f"`{part.replace('`', '``')}`" if {".", "`"} & set(part) else part


def warehouse_text(path: Any) -> str:
    """A warehouse as text: a path, a ``Path``, or a URI; a leading ``~`` is the home directory.

    Raises InvalidRequest for anything else.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidRequest(f"a warehouse is a directory or a URI, not {type(path).__name__}: write './warehouse'")
    return os.path.expanduser(os.fsdecode(path))
