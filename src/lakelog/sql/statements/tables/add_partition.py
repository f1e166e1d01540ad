"""ALTER TABLE … ADD PARTITION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidSchema
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class AddPartition(TableStatement):
    """``ALTER TABLE name ADD [IF NOT EXISTS] PARTITION (…) [PARTITION (…) …]``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    partitions: tuple[PartitionClause, ...]

    @classmethod
    def parse(cls, cursor: TokenStream) -> AddPartition:
        """Reads the statement."""
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        cursor.expect_words("ADD")
        cursor.accept_words("IF", "NOT", "EXISTS")
        clauses: list[PartitionClause] = []
        while (clause := read_partition(cursor, must_have_values=True)) is not None:
            clauses.append(clause)
            cursor.accept_symbol(",")
        if cursor.at_words("LOCATION"):
            cursor.fail("LOCATION is not supported: a partition is always in its table's directory")
        cursor.expect_end()
        return cls(cursor.source, name, tuple(clauses))

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Checks the statement; a partition exists from its first row on. Raises InvalidSchema."""
        keys = schema.partition_keys
        for clause in self.partitions:
            given = clause.own_values(schema, self.name, session.engine.zone)
            missing = [name for name in keys if name not in given]
            if missing:
                raise InvalidSchema(f"a partition of table '{self.name}' also needs a value of '{missing[0]}'")
        return empty_result()
