"""SHOW COLUMNS."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import text_rows
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class ShowColumns(ParsedStatement):
    """``SHOW COLUMNS IN|FROM name [IN|FROM database]``."""

    name: Name

    @classmethod
    def parse(cls, cursor: Cursor) -> ShowColumns:
        """Reads the statement."""
        cursor.expect_words("SHOW", "COLUMNS")
        if not cursor.accept_words("IN"):
            cursor.expect_words("FROM")
        name = cursor.name()
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            database = cursor.name("a database name", most=2)
            name = replace(name, parts=(*database.parts, name.parts[-1]))
        cursor.expect_end()
        return cls(cursor.source, name)

    def run(self, session: Context) -> object:
        """One row a column: col_name. Raises NotFound; a relation of Spark's goes to Spark."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        return text_rows(("col_name",), ((name,) for name in found[1].field_names))
