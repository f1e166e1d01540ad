"""DELETE FROM: whole partitions, or all rows."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.clauses import read_options
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import done
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class Delete(ParsedStatement):
    """``DELETE FROM name [/*+ OPTIONS(…) */] [WHERE condition on partition columns]``."""

    name: Name
    options: dict[str, str]
    condition: str | None

    @classmethod
    def parse(cls, cursor: Cursor) -> Delete:
        """Reads all but the condition, which is read with the table's columns at hand."""
        cursor.expect_words("DELETE", "FROM")
        name = cursor.name()
        options = read_options(cursor)
        if cursor.peek() is None:
            return cls(cursor.source, name, options, None)
        cursor.expect_words("WHERE")
        first = cursor.peek()
        if first is None:
            cursor.fail_expected("a condition")
        return cls(cursor.source, name, options, cursor.source.script[first.start : cursor.source.end])

    def run(self, session: Context) -> object:
        """Deletes. Raises NotFound, UnsupportedFeature for a condition on other columns."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        options = session.tables.canonical_options(self.options, "write")
        session.tables.delete(found[0], self.condition, options)
        return done()
