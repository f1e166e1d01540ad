"""ALTER TABLE … DROP PARTITION."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class DropPartition(TableStatement):
    """``ALTER TABLE name [/*+ OPTIONS(…) */] DROP [IF EXISTS] PARTITION (…)[, PARTITION (…)] [PURGE]``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    options: dict[str, str]
    partitions: tuple[PartitionClause, ...]
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropPartition:
        """Reads the statement."""
        cursor.expect_words("ALTER", "TABLE")
        name = cursor.name()
        options = read_options(cursor)
        cursor.expect_words("DROP")
        if_exists = cursor.accept_words("IF", "EXISTS")
        clauses: list[PartitionClause] = []
        while not clauses or cursor.accept_symbol(","):
            clause = read_partition(cursor, must_have_values=True)
            if clause is None:
                cursor.fail_expected("PARTITION (…)")
            clauses.append(clause)
        cursor.accept_words("PURGE")
        cursor.expect_end()
        return cls(cursor.source, name, options, tuple(clauses), if_exists)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Removes the partitions in one snapshot; values of some partition columns mean all that have them.

        Raises NotFound for values that no partition has, unless IF EXISTS.
        """
        specs = [clause.own_values(schema, self.name, session.engine.zone) for clause in self.partitions]
        options = session.tables.canonical_options(self.options, "write")
        session.tables.drop_partitions(identifier, specs, self.if_exists, options)
        return empty_result()
