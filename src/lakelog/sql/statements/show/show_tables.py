"""SHOW TABLES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import DEFAULT_DATABASE
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, matching, text_rows
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class ShowTables(ParsedStatement):
    """``SHOW TABLES [IN|FROM [catalog.]db] [[LIKE] 'pattern']``; a catalog without a database means its default one."""

    needs: ClassVar[Privilege] = Privilege.READ

    database: Name | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTables:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TABLES")
        database, pattern = None, None
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            database = cursor.name("a database name", most=2)
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("IN, FROM, LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per table: namespace, tableName. Raises NotFound for the database."""
        catalog, database = session.current_catalog, session.database
        if self.database is not None and len(self.database.parts) == 1 and session.is_catalog_alone(str(self.database)):
            catalog, database = session.catalogs.need(str(self.database)), DEFAULT_DATABASE
        elif self.database is not None:
            catalog, database = session.resolve_database(self.database)
        names = matching(session.tables.list_tables(database, catalog), self.pattern)
        return text_rows(("namespace", "tableName"), ((database, n) for n in names))
