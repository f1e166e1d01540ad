"""ANALYZE TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class AnalyzeTable(TableStatement):
    """``ANALYZE TABLE name COMPUTE STATISTICS [FOR ALL COLUMNS | FOR COLUMNS a, b]``; () means the table only."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    columns: tuple[str, ...] | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> AnalyzeTable:
        """Reads the statement."""
        cursor.expect_words("ANALYZE", "TABLE")
        name = cursor.name()
        cursor.expect_words("COMPUTE", "STATISTICS")
        columns: tuple[str, ...] | None = ()
        if cursor.accept_words("FOR", "ALL", "COLUMNS"):
            columns = None
        elif cursor.accept_words("FOR", "COLUMNS"):
            listed = [cursor.name_part("a column")]
            while cursor.accept_symbol(","):
                listed.append(cursor.name_part("a column"))
            columns = tuple(listed)
        cursor.expect_end()
        return cls(cursor.source, name, columns)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Computes and commits the statistics. Raises NotFound, InvalidSchema for an unknown column."""
        by_fold = {name.lower(): name for name in schema.field_names}
        columns = None if self.columns is None else [by_fold.get(c.lower(), c) for c in self.columns]
        session.tables.analyze(identifier, columns)
        return empty_result()
