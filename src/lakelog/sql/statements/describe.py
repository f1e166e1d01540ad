"""DESCRIBE of a table."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import text_rows
from lakelog.sql.statement import ParsedStatement

_SPARKS_OWN = (
    "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "QUERY", "PROCEDURE", "SELECT", "WITH", "VALUES", "FROM"
)  # fmt: skip


@dataclass(frozen=True)
class Describe(ParsedStatement):
    """``DESCRIBE|DESC [TABLE] [EXTENDED|FORMATTED] name``."""

    name: Name
    extended: bool

    @classmethod
    def parse(cls, cursor: Cursor) -> Describe | None:
        """Reads the statement; None for DESCRIBE of functions, queries and so on."""
        cursor.take()
        follows = cursor.peek(1)
        if follows is not None and not follows.is_symbol("."):
            if any(cursor.at_words(word) for word in _SPARKS_OWN):
                return None
            cursor.accept_words("TABLE")
        extended = False
        if cursor.peek(1) is not None:
            extended = cursor.accept_words("EXTENDED") or cursor.accept_words("FORMATTED")
        name = cursor.name()
        if cursor.at_words("AS") or cursor.at_words("PARTITION"):
            cursor.fail(f"{cursor.take().text.upper()} is not supported in DESCRIBE; write DESCRIBE [EXTENDED] {name}")
        cursor.expect_end()
        return cls(cursor.source, name, extended)

    def run(self, session: Context) -> object:
        """One row a column: col_name, data_type, comment. Raises NotFound; a relation of Spark's goes to Spark."""
        identifier = session.find(self.name)
        if identifier is None or not session.exists(identifier):
            if session.engine.is_spark_relation(self.name.sql):
                return session.engine.pass_through(self.source.text)
            raise session.no_table(self.name)
        rows = session.tables.describe(identifier, self.extended)
        return text_rows(("col_name", "data_type", "comment"), rows)
