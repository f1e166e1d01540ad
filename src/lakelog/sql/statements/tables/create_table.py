"""CREATE TABLE with its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.ddl.table_definition import TableDefinition, new_table_name
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class CreateTable(ParsedStatement):
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name (column type …, PRIMARY KEY (…)) …``; ``REPLACE TABLE …``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    table: TableDefinition

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateTable | None:
        """Reads the statement; None for a table of Spark."""
        table = TableDefinition.read(cursor)
        if table is None:
            return None
        cursor.expect_end()
        if not table.columns:
            cursor.fail(f"table '{table.name}' needs columns, such as (id int, name string, primary key (id))")
        return cls(cursor.source, table)

    def run(self, session: SessionContext) -> object:
        """Creates the table, and its database if it is missing, so that examples from manuals run unchanged."""
        with new_table_name(session, self.table) as target:
            self.table.create(session, target)
        return empty_result()
