"""SHOW DATABASES."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor
from lakelog.sql.result import matching, text_rows
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class ShowDatabases(ParsedStatement):
    """``SHOW DATABASES|SCHEMAS [[LIKE] 'pattern']``."""

    pattern: str | None

    @classmethod
    def parse(cls, cursor: Cursor) -> ShowDatabases:
        """Reads the statement."""
        cursor.expect_words("SHOW")
        cursor.take()
        pattern = None
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, pattern)

    def run(self, session: Context) -> object:
        """One row a database: namespace."""
        return text_rows(("namespace",), ((n,) for n in matching(session.tables.list_databases(), self.pattern)))
