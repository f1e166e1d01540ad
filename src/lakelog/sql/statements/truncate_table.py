"""TRUNCATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.clauses import PartitionClause, read_options, read_partition
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import done
from lakelog.sql.statement import ParsedStatement


@dataclass(frozen=True)
class TruncateTable(ParsedStatement):
    """``TRUNCATE TABLE name [/*+ OPTIONS(…) */] [PARTITION (…)]``; a table that only Spark knows is Spark's."""

    name: Name
    options: dict[str, str]
    partition: PartitionClause | None

    @classmethod
    def parse(cls, cursor: Cursor) -> TruncateTable:
        """Reads the statement."""
        cursor.expect_words("TRUNCATE", "TABLE")
        name = cursor.name()
        options = read_options(cursor)
        partition = read_partition(cursor, must_have_values=True)
        cursor.expect_end()
        return cls(cursor.source, name, options, partition)

    def run(self, session: Context) -> object:
        """Removes the rows. Raises NotFound for a table or partition that is not there."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = found
        values = {} if self.partition is None else self.partition.own_values(schema, self.name)
        session.tables.truncate(identifier, values, session.tables.canonical_options(self.options, "write"))
        return done()
