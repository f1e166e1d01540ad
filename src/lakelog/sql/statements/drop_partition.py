"""ALTER TABLE … DROP PARTITION."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import done
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class DropPartition(ParsedStatement):
    """``ALTER TABLE name [/*+ OPTIONS(…) */] DROP [IF EXISTS] PARTITION (…)[, PARTITION (…)] [PURGE]``."""

    name: Name
    options: dict[str, str]
    partitions: tuple[PartitionClause, ...]
    if_exists: bool

    @classmethod
    def parse(cls, cursor: Cursor) -> DropPartition:
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

    def run(self, session: Context) -> object:
        """Removes the partitions in one snapshot. Raises NotFound for one that is not there, unless IF EXISTS."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = found
        specs = [clause.own_values(schema, self.name) for clause in self.partitions]
        options = session.tables.canonical_options(self.options, "write")
        session.tables.drop_partitions(identifier, specs, self.if_exists, options)
        return done()
