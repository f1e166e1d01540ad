"""SHOW COLUMNS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ShowColumns(TableStatement):
    """``SHOW COLUMNS IN|FROM name [IN|FROM database]``."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowColumns:
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

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per column: col_name. Raises NotFound."""
        return text_rows(("col_name",), ((name,) for name in schema.field_names))
