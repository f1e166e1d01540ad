"""Statements that read, in this process: SELECT, SHOW, DESCRIBE and EXPLAIN, by the rules of the dashboard's terminal.

Each statement has a session of its own, so that none leaves a current database behind for the next user. The tables and
the database of a role are shared. Spark never starts: what only Spark can run is refused.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidRequest, NotAllowed, Unavailable, UnsupportedFeature, UnsupportedStatement
from lakelog.io.clock import monotonic_s
from lakelog.lake.lazy_engine import LazyEngine
from lakelog.service.serve.settings import ServeLimits, ServeSettings
from lakelog.service.terminal.guard.guarded_tables import GuardedTables
from lakelog.service.terminal.guard.syntax import check_syntax
from lakelog.sql.embedded.database import EmbeddedDatabase
from lakelog.sql.embedded.result_stream import ResultStream
from lakelog.sql.embedded.select import LocalSelect, local_select
from lakelog.sql.parse import Session, parse_script
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.runtime.tables import CatalogTables
from lakelog.sql.statements.databases import Use
from lakelog.state.spark_functions import NeedsSpark
from lakelog.table.catalog_config import CatalogConfig

_WATCH_S: Final = 0.2
CATALOG: Final = "lakelog"
"""The name of the first catalog."""


class _PlanningEngine(LazyEngine):
    """An engine of this process alone, which prepares queries and leaves it to the caller to run them."""

    def __init__(self, tables: CatalogTables) -> None:
        super().__init__(tables, CATALOG, None, {})
        self._planned_tables = tables
        self.database = EmbeddedDatabase(self._zone_name)

    @property
    def started(self) -> Any:
        """Raises UnsupportedFeature: Spark does not start here."""
        raise _needs_spark("this statement")

    def run_query(self, plan: QueryPlan) -> LocalSelect | pa.Table:
        """The prepared query; the lines of an EXPLAIN."""
        with _without_spark():
            if plan.text.lstrip()[:7].upper() == "EXPLAIN":
                return super().run_query(replace(plan, why_spark=""))
            return local_select(plan, self._planned_tables)


@contextlib.contextmanager
def _without_spark() -> Iterator[None]:
    """Context of planning and of reading. Raises UnsupportedFeature for what turns out to need Spark."""
    try:
        yield
    except NeedsSpark as why:
        if why.fault:
            raise UnsupportedStatement(why.fault) from None
        raise _needs_spark(str(why) or "this statement") from None


def _needs_spark(what: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"{what} needs Spark, which this server does not start: run it with `lakelog sql`")


@dataclass(frozen=True)
class _Role:
    """What the users of a role share."""

    tables: GuardedTables
    engine: _PlanningEngine


class _Deadlines:
    """Interrupts queries whose next batch takes too long; one thread watches all of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[ResultStream, float] = {}
        self._over: set[ResultStream] = set()
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self, query: ResultStream) -> Iterator[None]:
        """Context of one batch. Raises Unavailable if it takes too long."""
        with self._changed:
            self._ends[query] = monotonic_s() + self._seconds
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="statements", daemon=True)
                self._watcher.start()
            self._changed.notify()
        try:
            yield
        except BaseException as failure:
            if query not in self._over:
                raise
            raise Unavailable(
                f"the statement was ended after {self._seconds:g} s without a batch: read fewer rows, or run it with "
                "`lakelog sql`"
            ) from failure
        finally:
            with self._changed:
                self._ends.pop(query, None)
                self._over.discard(query)

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._ends:
                    self._changed.wait()
                now = monotonic_s()
                over = [query for query, end in self._ends.items() if end <= now]
                self._over.update(over)
                for query in over:
                    query.interrupt()
                self._changed.wait(_WATCH_S)


class Rows:
    """The result of a statement: its schema, then its batches, once. The caller closes it."""

    def __init__(self, source: pa.Table | ResultStream, limits: ServeLimits, deadline: _Deadlines) -> None:
        self._source, self._limits, self._deadlines = source, limits, deadline

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._source.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows. Raises Unavailable if the next batch takes longer than ``statement_s``."""
        if isinstance(self._source, pa.Table):
            yield from self._source.to_batches(max_chunksize=self._limits.batch_rows)
            return
        batches = self._source.batches(self._limits.batch_rows)
        while True:
            with self._deadlines.watching(self._source), _without_spark():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def close(self) -> None:
        """Ends the query."""
        if isinstance(self._source, ResultStream):
            self._source.close()

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Statements:
    """Runs statements with the rights of a role."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings, self._limits = settings, settings.limits
        self._roles: dict[Privilege, _Role] = {}
        self._lock = threading.Lock()
        self._deadlines = _Deadlines(settings.limits.statement_s)

    def session(self, role: Privilege) -> Session:
        """A new session over the tables of a role."""
        with self._lock:
            shared = self._roles.get(role) or self._opened(role)
        return Session(shared.tables, shared.engine, CATALOG)

    def run(self, role: Privilege, text: str) -> Rows:
        """The rows of one statement that reads.

        Raises InvalidRequest for a text that is too long or has several statements, NotAllowed for one that changes
        anything, UnsupportedFeature for one that needs Spark, and the errors of the statement.
        """
        session = self.session(role)
        statement = self._parsed(text)
        engine = session.engine
        assert isinstance(engine, _PlanningEngine)
        with engine.wanting("local"):
            result: Any = statement.run(session)
            if result is None:
                result = pa.table({})
            if isinstance(result, LocalSelect):
                with _without_spark():
                    result = ResultStream(result, engine.database)
        return Rows(result, self._limits, self._deadlines)

    def _parsed(self, text: str) -> ParsedStatement:
        if len(text.encode()) > self._limits.text_bytes:
            raise InvalidRequest(f"the statement has more than {self._limits.text_bytes} bytes: send it in parts")
        check_syntax(text)
        statements = parse_script(text)
        if len(statements) != 1:
            raise InvalidRequest(f"the text has {len(statements)} statements: send one at a time")
        statement = statements[0]
        if isinstance(statement, Use):
            raise NotAllowed("a statement here has no session that USE could change: write db.table in its text")
        if type(statement).needs > Privilege.READ:
            first = " ".join(statement.source.text.split()[:2]).upper()
            raise NotAllowed(
                f"{first} changes more than the answer, and this server runs statements that read: write rows with "
                "DoPut, and run this statement with `lakelog sql`"
            )
        return statement

    def _opened(self, role: Privilege) -> _Role:
        there = self._settings
        tables = GuardedTables(there.warehouse, there.storage_options, there.catalog_options, role, files=False)
        for name, options in there.catalogs.items():
            tables.add_catalog(name, CatalogConfig.of(name, options))
        self._roles[role] = _Role(tables, _PlanningEngine(tables))
        return self._roles[role]

    def close(self) -> None:
        """Ends the databases of queries."""
        for role in self._roles.values():
            role.engine.database.close()
            role.engine.close()
