"""DESCRIBE of a table."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.catalog.base import Identifier
from lakelog.spec.schema import TableSchema
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor
from lakelog.sql.result import text_rows
from lakelog.sql.statement import TableStatement

_SPARKS_OWN = (
    "FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "QUERY", "PROCEDURE", "SELECT", "WITH", "VALUES", "FROM"
)  # fmt: skip


@dataclass(frozen=True)
class Describe(TableStatement):
    """``DESCRIBE|DESC [TABLE] [EXTENDED|FORMATTED] name``."""

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

    def run_on(self, session: Context, identifier: Identifier, schema: TableSchema) -> object:
        """One row a column: col_name, data_type, comment."""
        rows = session.tables.describe(identifier, self.extended)
        return text_rows(("col_name", "data_type", "comment"), rows)
