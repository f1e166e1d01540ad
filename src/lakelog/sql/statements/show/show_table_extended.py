"""SHOW TABLE EXTENDED."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, matching, text_rows
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class ShowTableExtended(ParsedStatement):
    """``SHOW TABLE EXTENDED [IN|FROM [catalog.]db] LIKE 'pattern'``; with PARTITION it is Spark's."""

    needs: ClassVar[Privilege] = Privilege.READ

    database: Name | None
    pattern: str

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTableExtended | None:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TABLE", "EXTENDED")
        database = None
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            database = cursor.name("a database name", most=2)
        cursor.expect_words("LIKE")
        pattern = cursor.text_literal("a pattern in quotes")
        if cursor.at_words("PARTITION"):
            return None
        cursor.expect_end()
        return cls(cursor.source, database, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per table: namespace, tableName, isTemporary, information. Raises NotFound for the database."""
        catalog, database = session.current_catalog, session.database
        if self.database is not None:
            catalog, database = session.resolve_database(self.database)
        rows = []
        for name in matching(session.tables.list_tables(database, catalog), self.pattern):
            facts = session.tables.describe(Identifier(database, name, catalog), True)
            rows.append((database, name, "false", "".join(f"{key}: {value}\n" for key, value, _ in facts if key)))
        return text_rows(("namespace", "tableName", "isTemporary", "information"), rows)
