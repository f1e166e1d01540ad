"""ALTER TABLE … COMPACT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.lexer import quoted_name, quoted_text
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class CompactTable(TableStatement):
    """``ALTER TABLE name [PARTITION (…)] COMPACT`` of FLIP-188: ``CALL sys.compact``."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    partition: PartitionClause | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> CompactTable:
        """Reads the statement."""
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        partition = read_partition(cursor, must_have_values=True)
        cursor.expect_words("COMPACT")
        cursor.expect_end()
        return cls(cursor.source, name, partition)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Compacts the table, or the partitions with these values, fully; one row of counts. Raises InvalidSchema."""
        given = {} if self.partition is None else self.partition.own_values(schema, self.name, session.engine.zone)
        parts = [
            f"{quoted_name(name)} " + ("IS NULL" if value is None else f"= {quoted_text(value)}")
            for name, value in given.items()
        ]
        table = session.tables.open(identifier)
        return PROCEDURES.load("compact").call(table, [], {"where": " AND ".join(parts) or None}, session.engine)
