"""DESCRIBE of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.catalog.names import did_you_mean
from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import RowType
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.sql.syntax.type_parser import type_text

_SPARKS_OWN = (
    "FUNCTION", "CATALOG", "QUERY", "PROCEDURE", "SELECT", "WITH", "VALUES", "FROM"
)  # fmt: skip


@dataclass(frozen=True)
class Describe(TableStatement):
    """``DESCRIBE|DESC [TABLE] [EXTENDED|FORMATTED] name [column]``."""

    needs: ClassVar[Privilege] = Privilege.READ

    extended: bool
    column: Name | None = None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Describe | None:
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
        column = None if cursor.peek() is None else cursor.name("a column", most=9)
        cursor.expect_end()
        return cls(cursor.source, name, extended, column)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per column (name, type, comment), then the partition columns; or info_name, info_value of one.

        Raises InvalidSchema for an unknown column.
        """
        if self.column is not None:
            return self._column(schema, self.column)
        rows, header = list(session.tables.describe(identifier, self.extended)), ("col_name", "data_type", "comment")
        if schema.partition_keys:
            count = len(schema.fields)
            partitions = [row for row in rows[:count] if row[0] in schema.partition_keys]
            rows[count:count] = [("# Partition Information", "", ""), (f"# {header[0]}", *header[1:]), *partitions]
        return text_rows(header, rows)

    def _column(self, schema: TableSchema, given: Name) -> object:
        path = [part.lower() for part in given.parts]
        fields = schema.fields
        found = None
        for part in path:
            found = next((field for field in fields if field.name.lower() == part), None)
            fields = found.type.fields if found is not None and isinstance(found.type, RowType) else ()
        if found is None:
            near = did_you_mean(str(given), schema.field_names)
            raise InvalidSchema(f"table '{self.name}' has no column '{given}'{near}")
        rows = [("col_name", found.name), ("data_type", type_text(found.type)), ("comment", found.description)]
        return text_rows(("info_name", "info_value"), rows)
