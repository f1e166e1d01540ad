"""OPTIMIZE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.spec.schema import TableSchema
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor
from lakelog.sql.pieces import read_piece
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.right import Right
from lakelog.sql.statement import TableStatement


@dataclass(frozen=True)
class Optimize(TableStatement):
    """``OPTIMIZE name [WHERE condition on partition columns]``, as Delta has it: ``CALL sys.compact``."""

    needs: ClassVar[Right] = Right.ADMIN

    where: str | None

    @classmethod
    def parse(cls, cursor: Cursor) -> Optimize:
        """Reads the statement."""
        cursor.expect_words("OPTIMIZE")
        name = cursor.name()
        where = read_piece(cursor, "a condition", "ZORDER") if cursor.accept_words("WHERE") else None
        if cursor.at_words("ZORDER"):
            cursor.fail("ZORDER BY is not supported: the rows of a table lie in the order of its primary key")
        cursor.expect_end()
        return cls(cursor.source, name, where)

    def run_on(self, session: Context, identifier: Identifier, schema: TableSchema) -> object:
        """Compacts the table fully; one row of counts. Raises NotFound."""
        table = session.tables.open(identifier)
        return PROCEDURES.load("compact").call(table, [], {"where": self.where}, session.engine)
