"""Statements of materialized views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakelog.errors import AlreadyExists
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, counts_row, empty_result, matching, text_rows
from lakelog.sql.runtime.tables import views_of
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.sql.views.create import change_view, create_view, drop_view, need_view, refresh_view
from lakelog.sql.views.plan import plan_view
from lakelog.table.views.definition import ViewDefinition

_MATERIALIZED = ("MATERIALIZED", "VIEW")


def _read_refresh(cursor: TokenStream) -> int | None:
    """Reads ``ON COMMIT``, ``EVERY n unit`` or ``MANUAL``; returns ``ViewDefinition.every_ms``."""
    if cursor.accept_words("ON", "COMMIT"):
        return ViewDefinition.parse_refreshes("on commit")
    if cursor.accept_words("MANUAL"):
        return ViewDefinition.parse_refreshes("manual")
    cursor.expect_words("EVERY")
    number = cursor.take().text
    return ViewDefinition.parse_refreshes(f"every {number} {cursor.name_part('a unit such as seconds or minutes')}")


@dataclass(frozen=True)
class CreateMaterializedView(ParsedStatement, needs=Privilege.WRITE):
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [COMMENT text] [TBLPROPERTIES (…)] [REFRESH ON
    COMMIT | EVERY n unit | MANUAL] AS query``.
    """

    explain_fault: ClassVar[str] = "EXPLAIN describes a view that exists: EXPLAIN MATERIALIZED VIEW name"

    name: Name
    or_replace: bool
    if_not_exists: bool
    comment: str | None
    options: dict[str, str]
    every_ms: int | None
    query: str

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateMaterializedView:
        """Reads the statement; its query stays text."""
        cursor.expect_words("CREATE")
        or_replace = cursor.accept_words("OR", "REPLACE")
        cursor.expect_words(*_MATERIALIZED)
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        if or_replace and if_not_exists:
            cursor.fail("OR REPLACE and IF NOT EXISTS contradict each other: leave one of them out")
        name = cursor.name()
        comment: str | None = None
        options: dict[str, str] = {}
        every_ms: int | None = 0
        while not cursor.accept_words("AS"):
            if cursor.accept_words("COMMENT"):
                comment = cursor.text_literal("a comment")
            elif cursor.accept_words("TBLPROPERTIES") or cursor.accept_words("WITH"):
                options |= cursor.options()
            elif cursor.accept_words("REFRESH"):
                every_ms = _read_refresh(cursor)
            else:
                cursor.fail_expected("COMMENT, TBLPROPERTIES, REFRESH or AS and a query")
        first = cursor.peek()
        if first is None:
            cursor.fail_expected("a query")
        query = cursor.source.script[first.start : cursor.source.end]
        return cls(cursor.source, name, or_replace, if_not_exists, comment, options, every_ms, query)

    def run(self, session: SessionContext) -> object:
        """Creates the view with its rows; returns their number. Raises AlreadyExists, UnsupportedFeature, NotFound."""
        identifier = session.resolve(self.name)
        if session.exists(identifier):
            if self.if_not_exists:
                return empty_result()
            if not self.or_replace:
                raise AlreadyExists(f"table '{identifier}' exists already")
            need_view(session, identifier)
        refresh = create_view(
            session, identifier, self.query, self.every_ms, self.options, self.comment, or_replace=self.or_replace
        )
        return counts_row({"rows": refresh.rows})


@dataclass(frozen=True)
class RefreshMaterializedView(ParsedStatement, needs=Privilege.WRITE):
    """``REFRESH MATERIALIZED VIEW name``."""

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> RefreshMaterializedView:
        cursor.expect_words("REFRESH", *_MATERIALIZED)
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: SessionContext) -> object:
        """Brings the view to the newest rows of its sources; returns the number of changes."""
        return counts_row({"rows": refresh_view(session, session.resolve(self.name)).rows})


@dataclass(frozen=True)
class AlterMaterializedView(ParsedStatement, needs=Privilege.WRITE):
    """``ALTER MATERIALIZED VIEW name REBUILD | SUSPEND | RESUME | REFRESH (ON COMMIT | EVERY n unit | MANUAL)``."""

    name: Name
    verb: str
    every_ms: int | None = None

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterMaterializedView:
        cursor.expect_words("ALTER", *_MATERIALIZED)
        name = cursor.name()
        verb = next((v for v in ("REBUILD", "SUSPEND", "RESUME", "REFRESH") if cursor.accept_words(v)), None)
        if verb is None:
            cursor.fail_expected("REBUILD, SUSPEND, RESUME or REFRESH")
        every_ms = _read_refresh(cursor) if verb == "REFRESH" else None
        cursor.expect_end()
        return cls(cursor.source, name, verb, every_ms)

    def run(self, session: SessionContext) -> object:
        """Changes the view; REBUILD computes all its rows, also after a source was created again."""
        identifier = session.resolve(self.name)
        if self.verb == "REBUILD":
            return counts_row({"rows": refresh_view(session, identifier, rebuild=True).rows})
        if self.verb == "REFRESH":
            change_view(session, identifier, every_ms=self.every_ms)
        else:
            change_view(session, identifier, suspended=self.verb == "SUSPEND")
        return empty_result()


@dataclass(frozen=True)
class DropMaterializedView(ParsedStatement, needs=Privilege.WRITE):
    """``DROP MATERIALIZED VIEW [IF EXISTS] name``."""

    name: Name
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropMaterializedView:
        cursor.expect_words("DROP", *_MATERIALIZED)
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name, if_exists)

    def run(self, session: SessionContext) -> object:
        """Drops the view. Raises NotFound, InvalidRequest for a table or the source of another view."""
        drop_view(session, session.resolve(self.name), self.if_exists)
        return empty_result()


@dataclass(frozen=True)
class ShowMaterializedViews(ParsedStatement, needs=Privilege.READ):
    """``SHOW MATERIALIZED VIEWS [IN database] [LIKE pattern]``."""

    database: Name | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowMaterializedViews:
        cursor.expect_words("SHOW", "MATERIALIZED", "VIEWS")
        database = cursor.database()
        pattern = cursor.text_literal("a pattern") if cursor.accept_words("LIKE") else None
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: SessionContext) -> object:
        """Name, sources, refresh and query of each view of a database (default: the current one)."""
        catalog, database = session.resolve_database(self.database)
        views = {i.table: v for i, v in views_of(session.tables, catalog) if i.database == database}
        columns = ("namespace", "viewName", "refresh", "suspended", "sources", "query")
        rows = [
            (database, name, view.refreshes, str(view.suspended).lower(), ", ".join(view.sources), view.query)
            for name in matching(views, self.pattern)
            for view in (views[name],)
        ]
        return text_rows(columns, rows)


@dataclass(frozen=True)
class ExplainMaterializedView(ParsedStatement, needs=Privilege.READ):
    """``EXPLAIN MATERIALIZED VIEW name``."""

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> ExplainMaterializedView:
        cursor.expect_words("EXPLAIN", *_MATERIALIZED)
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: SessionContext) -> pa.Table:
        """Returns the plan of the view as text: its engine, what a change makes it compute, its key and statements."""
        identifier = session.resolve(self.name)
        definition = need_view(session, identifier)
        plan = plan_view(session, definition)
        where = f"Spark, because of {plan.needs_spark}" if plan.needs_spark else "this process (DuckDB)"
        lines = [
            f"Materialized view {identifier}, refreshed {definition.refreshes}",
            f"  sources: {', '.join(definition.sources)}",
            f"  key: {', '.join(plan.local.key) or 'none, one row'}",
            f"  computed by: {where}",
            f"  a change computes: {plan.cost}",
            *(f"  changes of {plan.local.sources[at].name} ({side}): {query}" for at, side, query in plan.changes),
        ]
        return text_rows(("plan",), [("\n".join(lines),)])
