"""The lazily started Spark engine of a lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakelog.catalog.base import Identifier
from lakelog.lake.catalog_tables import CatalogTables
from lakelog.options.registry import Registry
from lakelog.sql.parse import Session
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.table.maintenance.compaction_task import Executor

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "spark": "lakelog.spark.engine.engine:SparkEngine",
        "guarded": "lakelog.spark.guard.guarded_engine:GuardedEngine",
    },
)


def _forwarded(name: str) -> Any:
    """A method of ``Engine`` that starts the real engine and delegates to it."""
    return lambda self, *arguments, **more: getattr(self.started, name)(*arguments, **more)


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
        self._engine: Any = None

    @property
    def started(self) -> Any:
        """The real engine."""
        if self._engine is None:
            self._engine = ENGINES.create(self._kind, *self._arguments, **self._more)
        return self._engine

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

    run_query = _forwarded("run_query")
    insert = _forwarded("insert")
    columns_of = _forwarded("columns_of")
    millis_of = _forwarded("millis_of")
    simple_types = _forwarded("simple_types")
    files_of = _forwarded("files_of")
    kept = _forwarded("kept")
    replace_files = _forwarded("replace_files")
    write_sorted = _forwarded("write_sorted")
    cache_table = _forwarded("cache_table")
    pass_through = _forwarded("pass_through")
    is_view = _forwarded("is_view")

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
        found: Executor | None = self.started.executor(wanted=start)
        return found

    def close(self) -> None:
        """Stops a session started here; restores ``spark.sql`` of any other session."""
        if self._engine is not None:
            if self._owned:
                self._engine.stop()
            else:
                self._engine.detach()
        self._engine = None


class LakeStatements:
    """Statements of the lake's session over frames, for its tables."""

    def __init__(self, session: Session, engine: LazyEngine) -> None:
        self._session, self._engine = session, engine

    def run(self, text: str, **frames: Any) -> list[Any]:
        """Runs a statement with ``{name}`` as a reference to one of the frames."""
        with self._engine.started.named(frames) as views:
            for name, view in views.items():
                text = text.replace(f"{{{name}}}", view)
            return self._session.run(text)

    def name_of(self, identifier: Identifier) -> str:
        """A table's name in these statements, with its catalog if the name is ambiguous without it."""
        return ".".join(map(quoted_name, self._session.parts_of(identifier)))
