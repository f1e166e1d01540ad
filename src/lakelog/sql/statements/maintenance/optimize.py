"""OPTIMIZE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.fragments import read_fragment
from lakelog.sql.syntax.lexer import quoted_name
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Optimize(TableStatement):
    """``OPTIMIZE name [WHERE condition on partition columns] [ZORDER BY (a, b)]`` of Delta: ``CALL sys.compact``."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    where: str | None
    z_order: tuple[str, ...]

    @classmethod
    def parse(cls, cursor: TokenStream) -> Optimize:
        """Reads the statement."""
        cursor.expect_words("OPTIMIZE")
        name = cursor.name()
        where = read_fragment(cursor, "a condition", "ZORDER") if cursor.accept_words("WHERE") else None
        columns: tuple[str, ...] = ()
        if cursor.accept_words("ZORDER"):
            cursor.expect_words("BY")
            within = cursor.at_symbol("(")
            columns = cursor.names_in_parentheses("a column") if within else cursor.names("a column")
        cursor.expect_end()
        return cls(cursor.source, name, where, columns)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Compacts the table fully; one row of counts. Raises NotFound, InvalidRequest, InvalidSchema."""
        table = session.tables.open(identifier)
        order = (
            {"order_strategy": "zorder", "order_by": ", ".join(map(quoted_name, self.z_order))} if self.z_order else {}
        )
        return PROCEDURES.load("compact").call(table, [], {"where": self.where, **order}, session.engine)
