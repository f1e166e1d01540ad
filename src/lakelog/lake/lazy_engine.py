"""The lazily started Spark engine of a lake."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.catalog.names import FIRST
from lakelog.errors import InvalidRequest, NotFound, NotInstalled, UnsupportedFeature, UnsupportedStatement
from lakelog.io.machine import can_start_spark, has_spark_session
from lakelog.io.metrics import METER
from lakelog.lake.output.result import TableResult, with_methods
from lakelog.options.boundary import STATEMENT
from lakelog.options.catalog import SQL_LOCAL_SIZE
from lakelog.options.option import Options
from lakelog.options.registry import Registry
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.dml.row_changes import RowChange
from lakelog.sql.local.engine import LocalEngine
from lakelog.sql.parse import Session
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.state.spark_functions import NeedsSpark
from lakelog.table.maintenance.compaction_task import Executor
from lakelog.table.model.row_counts import RowCounts
from lakelog.table.read.time_travel import SESSION_ZONE, zone_of
from lakelog.table.write.table_writer import table_of

_LOG: Final = logging.getLogger("lakelog.engine")

EngineName = Literal["local", "spark"]
"""An engine of statements: this process, or Spark."""

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "spark": "lakelog.spark.engine.engine:SparkEngine",
        "guarded": "lakelog.spark.guard.guarded_engine:GuardedEngine",
    },
)


T = TypeVar("T")


class _Restart(BaseException):
    """A part of a statement has started Spark, where all of it runs again. No error, so that no handler takes it."""


def _forwarded(name: str, is_step: bool = False) -> Any:
    """A method of ``Engine``: of the local engine if it can, otherwise of the real engine, which it starts.

    ``is_step``: it reads or writes rows, so that it may take long.
    """

    def run(method: Callable[..., Any], engine: EngineName, arguments: Sequence[Any], more: Mapping[str, Any]) -> Any:
        if not is_step:
            return method(*arguments, **more)
        with METER.step(name.replace("_", "-"), engine=engine):
            return method(*arguments, **more)

    def method(self: LazyEngine, *arguments: Any, **more: Any) -> Any:
        local_method = getattr(self.local, name, None)
        if local_method is not None:
            try:
                return run(local_method, "local", arguments, more)
            except NeedsSpark as why:
                _LOG.debug("statement %s: Spark is needed: %s", STATEMENT.get(), why)
                self.start_for(why)
        return run(getattr(self.started, name), "spark", arguments, more)

    return method


class LazyEngine:
    """The engine for the SQL session; the first call starts Spark.

    ``kind`` is a key of ``ENGINES``, ``more`` the arguments specific to this kind.
    """

    def __init__(
        self,
        tables: CatalogTables,
        catalog: str,
        spark: Any | None,
        settings: Mapping[str, str],
        kind: str = "spark",
        **more: Any,
    ) -> None:
        self._arguments = (tables, catalog, spark, settings)
        self._kind, self._more = kind, more
        self._owned = spark is None
        self._local = LocalEngine(tables, self._zone_name, self._most_here)
        self._local_size = Options(tables.configs[FIRST].catalog).need(SQL_LOCAL_SIZE)
        self._engine: Any = None
        self._wanted: ContextVar[EngineName | None] = ContextVar("wanted", default=None)
        self._why: ContextVar[str | None] = ContextVar("why", default=None)
        """Why the running statement needs Spark, "" before it does; None outside of ``statement``."""

    @contextmanager
    def wanting(self, engine: EngineName | None) -> Iterator[None]:
        """Context of statements that one engine runs, None: the one that fits. Raises InvalidRequest for another."""
        if engine not in (None, "local", "spark"):
            raise InvalidRequest(f"engine = '{engine}' is unknown: give 'local' or 'spark', or leave it out")
        token = self._wanted.set(engine)
        try:
            yield
        finally:
            self._wanted.reset(token)

    @property
    def started(self) -> Any:
        """The real engine."""
        if self._engine is None:
            self._engine = ENGINES.create(self._kind, *self._arguments, **self._more)
        return self._engine

    @property
    def local(self) -> LocalEngine | None:
        """The engine of this process, if statements run here as far as it can."""
        return None if self._why_spark() else self._local

    def _why_spark(self) -> str:
        """Why Spark runs statements now; "" if this process runs those that it can."""
        settings = self._arguments[3]
        if self._wanted.get() is not None:
            return "engine = 'spark'" if self._wanted.get() == "spark" else ""
        if self._engine is not None or not self._owned or self._kind != "spark":
            return self._why.get() or "the lake has a session"
        if not can_start_spark():
            return ""
        if has_spark_session():
            return "this process has a session"
        changing = next((key for key in settings if key.startswith("spark.sql.") and key != SESSION_ZONE), None)
        if changing is not None:
            return f"'{changing}' is set, which may change values"
        return "" if self._local_size else f"'{SQL_LOCAL_SIZE.key}' is 0"

    def _most_here(self) -> int | None:
        """Bytes of files and results above which Spark takes over; None if it cannot."""
        return None if self._wanted.get() == "local" or not can_start_spark() else int(self._local_size)

    def statement(self, run: Callable[[], T]) -> T:
        """Runs a statement; on Spark from its beginning if a part of it has started Spark."""
        token = self._why.set("")
        try:
            try:
                return run()
            except _Restart as why:
                self._why.set(str(why))
            return run()
        finally:
            self._why.reset(token)

    def change_rows(self, identifier: Identifier, change: RowChange, options: Mapping[str, str]) -> RowCounts | None:
        """Changes rows in this process if Spark is not running; None if it did not."""
        local = self.local
        if local is not None:
            try:
                return local.change_rows(identifier, change, options)
            except NeedsSpark as why:
                self.start_for(why)
        return None

    def start_for(self, why: NeedsSpark) -> None:
        """Starts Spark for a part of a statement, and restarts the statement.

        Without Spark raises NotInstalled, which names the part, or UnsupportedStatement for a fault; UnsupportedFeature
        if the statement is for this process.
        """
        if self._wanted.get() == "local":
            raise UnsupportedFeature(
                f"{str(why) or 'this statement'} needs Spark: leave engine = 'local' out"
            ) from None
        try:
            _ = self.started
        except NotInstalled as missing:
            if why.fault:
                raise UnsupportedStatement(why.fault) from None
            what, message = str(why) or "this statement", str(missing)
            rest = (
                message.removeprefix("this") if message.startswith("this needs Spark") else f" needs Spark: {message}"
            )
            raise NotInstalled(what + rest) from None
        if self._why.get() is not None:
            raise _Restart(f"{str(why) or 'the statement'} needs it")

    def run_query(self, plan: QueryPlan) -> Any:
        """The DataFrame of a query. The rows of one that this process ran become it when a method of it is called."""
        result = self._run_query(replace(plan, why_spark=self._why_spark()))
        if isinstance(result, pa.Table) and self._most_here() is not None:
            return TableResult(result, lambda: with_methods(self.started.run_query(plan)))
        return result

    def named(self, frames: Mapping[str, Any]) -> AbstractContextManager[dict[str, str]]:
        """Names of DataFrames and Arrow tables for the duration of a block."""
        is_here = all(isinstance(rows, pa.Table) for rows in frames.values())
        engine = self.local if is_here else None
        named: AbstractContextManager[dict[str, str]] = (engine or self.started).named(frames)
        return named

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the session, also of one that has not started."""
        if self._engine is None and self._owned:
            return zone_of((self._arguments[3] or {}).get(SESSION_ZONE, ""))
        zone: tzinfo | None = self.started.zone
        return zone

    def _zone_name(self) -> str | None:
        """The name of that zone; None for this machine's."""
        if self._engine is None and self._owned:
            return (self._arguments[3] or {}).get(SESSION_ZONE)
        return None if self.zone is None else str(self.zone)

    @property
    def is_started(self) -> bool:
        """True if the engine has been started."""
        return self._engine is not None

    @property
    def started_with_connector(self) -> Any:
        """The real engine; a session that starts now gets Spark's Kafka connector."""
        if self._engine is None:
            self._engine = ENGINES.create(self._kind, *self._arguments, with_connector=True, **self._more)
        return self._engine

    def is_spark_relation(self, name: str) -> bool:
        """True if Spark knows a view or table of this name; without a session it knows none."""
        if self._engine is None and self._owned:
            return False
        return bool(self.started.is_spark_relation(name))

    _run_query = _forwarded("run_query", is_step=True)
    batches = _forwarded("batches")
    insert = _forwarded("insert", is_step=True)
    columns_of = _forwarded("columns_of")
    millis_of = _forwarded("millis_of")
    simple_types = _forwarded("simple_types")
    check_assignments = _forwarded("check_assignments")
    checks_casts = _forwarded("checks_casts")
    files_of = _forwarded("files_of")
    materialized = _forwarded("materialized", is_step=True)
    replace_files = _forwarded("replace_files", is_step=True)
    write_sorted = _forwarded("write_sorted", is_step=True)
    cache_table = _forwarded("cache_table")
    pass_through = _forwarded("pass_through", is_step=True)
    is_view = _forwarded("is_view")
    view_of = _forwarded("view_of")

    def uncache_table(self, table: Identifier | None) -> None:
        """Releases cached rows; a session that has not started has none."""
        if self._engine is not None:
            self._engine.uncache_table(table)

    def update_catalogs(self) -> None:
        """Updates the catalogs of a running session; a later session reads them when it starts."""
        if self._engine is not None:
            self._engine.update_catalogs()

    def executor(self, start: bool = False) -> Executor | None:
        """Spark's executors for compactions; None without a session or a benefit, unless ``start``."""
        if self._engine is None and self._owned and not start:
            return None
        executor: Executor | None = self.started.executor(wanted=start)
        return executor

    def close(self) -> None:
        """Stops a session started here; restores ``spark.sql`` of any other session."""
        self._local.close()
        if self._engine is not None:
            if self._owned:
                self._engine.stop()
            else:
                self._engine.detach()
        self._engine = None


class LakeStatements:
    """Statements of the lake's session over frames, for its tables and for a Spark session that it is attached to."""

    def __init__(
        self, session: Session, engine: LazyEngine, attach_to: Callable[[Any], None] = lambda session: None
    ) -> None:
        self._session, self._engine, self.attach_to = session, engine, attach_to

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement with ``{name}`` as a reference to one of the frames."""
        rows = {
            name: frame if hasattr(type(frame), "isStreaming") else table_of(frame) for name, frame in frames.items()
        }

        def run() -> list[Any]:
            with self._engine.named(rows) as views:
                named = text
                for name, view in views.items():
                    named = named.replace(f"{{{name}}}", view)
                return self._session.run(named)

        return self._engine.statement(run)

    def name_of(self, identifier: Identifier) -> str:
        """A table's name in these statements, with its catalog if the name is ambiguous without it."""
        return ".".join(map(quoted_name, self._session.parts_of(identifier)))

    def has(self, name: str) -> bool:
        """Returns whether a table has this name."""
        try:
            return self._session.exists(self._session.identifier(name))
        except (InvalidRequest, NotFound):
            return False

    def full(self, name: str) -> str:
        """A table's name with its database, and with its catalog unless that is the first one."""
        return ".".join(self._session.parts_of(self._session.identifier(name)))

    def databases(self) -> Sequence[str]:
        """The databases of the current catalog."""
        return self._session.tables.list_databases(self._session.current_catalog)

    def tables(self, database: str | None) -> Sequence[tuple[str, str]]:
        """(database, table) of a database of the current catalog, None: the current one."""
        chosen = self._session.database if database is None else database
        if chosen not in self.databases():
            return []
        return [(chosen, name) for name in self._session.tables.list_tables(chosen, self._session.current_catalog)]

    def read_stream(self, name: str) -> Any:
        """A streaming DataFrame of a table's changes. Raises NotFound."""
        return self._engine.started.read_stream(self._session.tables.open(self._session.identifier(name)))

    def schema(self, name: str) -> TableSchema:
        """The columns of a table. Raises NotFound."""
        return self._session.tables.open(self._session.identifier(name)).schema
