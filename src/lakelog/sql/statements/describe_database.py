"""DESCRIBE DATABASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import text_rows
from lakelog.sql.right import Right
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class DescribeDatabase(ParsedStatement):
    """``DESCRIBE|DESC DATABASE|SCHEMA|NAMESPACE [EXTENDED] [catalog.]name``; one that only Spark has is Spark's."""

    needs: ClassVar[Right] = Right.READ

    name: Name

    @classmethod
    def parse(cls, cursor: Cursor) -> DescribeDatabase:
        """Reads the statement."""
        cursor.take()
        cursor.take()
        if cursor.peek(1) is not None:
            cursor.accept_words("EXTENDED")
        name = cursor.name("a database name", most=2)
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: Context) -> object:
        """One row a property: info_name, info_value."""
        names, parts = session.catalogs, self.name.parts
        catalog = session.current_catalog if len(parts) == 1 else names.find(parts[0])
        if catalog is None or parts[-1] not in session.tables.list_databases(catalog):
            return session.engine.pass_through(self.source.text)
        rows = [("Catalog Name", names.shown(catalog)), ("Namespace Name", parts[-1])]
        return text_rows(("info_name", "info_value"), rows)
