"""REFRESH TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import Context
from lakelog.sql.runtime.privilege import Right
from lakelog.sql.runtime.result import done
from lakelog.sql.runtime.statement import TableStatement
from lakelog.sql.syntax.token_stream import Cursor


@dataclass(frozen=True)
class RefreshTable(TableStatement):
    """``REFRESH TABLE name``."""

    needs: ClassVar[Right] = Right.READ

    @classmethod
    def parse(cls, cursor: Cursor) -> RefreshTable:
        """Reads the statement."""
        cursor.expect_words("REFRESH", "TABLE")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: Context, identifier: Identifier, schema: TableSchema) -> object:
        """Does nothing: every query looks for the newest snapshot by itself. Raises NotFound."""
        return done()
