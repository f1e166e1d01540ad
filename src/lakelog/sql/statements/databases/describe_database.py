"""DESCRIBE DATABASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, text_rows
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class DescribeDatabase(ParsedStatement):
    """``DESCRIBE|DESC DATABASE|SCHEMA|NAMESPACE [EXTENDED] [catalog.]name``; Spark runs it for its own."""

    needs: ClassVar[Privilege] = Privilege.READ

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeDatabase:
        """Reads the statement."""
        cursor.take()
        cursor.take()
        if cursor.peek(1) is not None:
            cursor.accept_words("EXTENDED")
        name = cursor.name("a database name", most=2)
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: SessionContext) -> object:
        """One row per property: info_name, info_value."""
        found = session.own_database(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        catalog, database = found
        rows = [("Catalog Name", session.catalogs.shown(catalog)), ("Namespace Name", database)]
        return text_rows(("info_name", "info_value"), rows)
