"""REFRESH TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class RefreshTable(TableStatement):
    """``REFRESH TABLE name``."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> RefreshTable:
        """Reads the statement."""
        cursor.expect_words("REFRESH", "TABLE")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Does nothing, because every query reads the newest snapshot. Raises NotFound."""
        return empty_result()
