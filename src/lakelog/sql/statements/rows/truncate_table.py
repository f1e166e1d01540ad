"""TRUNCATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class TruncateTable(TableStatement, needs=Privilege.WRITE):
    """``TRUNCATE TABLE name [/*+ OPTIONS(…) */] [PARTITION (…)]``; a table of Spark only is Spark's."""

    options: dict[str, str]
    partition: PartitionClause | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> TruncateTable:
        cursor.expect_words("TRUNCATE", "TABLE")
        name = cursor.name()
        options = read_options(cursor)
        partition = read_partition(cursor, must_have_values=True)
        cursor.expect_end()
        return cls(cursor.source, name, options, partition)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Removes the rows. Raises NotFound for an unknown table or partition."""
        values = {} if self.partition is None else self.partition.own_values(schema, self.name, session.engine.zone)
        session.tables.truncate(identifier, values, session.tables.canonical_options(self.options, "write"))
        return empty_result()
