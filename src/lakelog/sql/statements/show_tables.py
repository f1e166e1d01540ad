"""SHOW TABLES."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import matching, text_rows
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class ShowTables(ParsedStatement):
    """``SHOW TABLES [IN|FROM [catalog.]db] [[LIKE] 'pattern']``."""

    database: Name | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: Cursor) -> ShowTables:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TABLES")
        database, pattern = None, None
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            database = cursor.name("a database name", most=2)
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("IN, FROM, LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: Context) -> object:
        """One row a table: namespace, tableName. Raises NotFound for the database."""
        database = session.resolve_database(self.database) if self.database else session.database
        names = matching(session.tables.list_tables(database), self.pattern)
        return text_rows(("namespace", "tableName"), ((database, n) for n in names))
