"""DESCRIBE HISTORY."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.statement import ParsedStatement
from lakelog.table.snapshot_log import snapshot_log


@dataclass(frozen=True)
class DescribeHistory(ParsedStatement):
    """``DESCRIBE|DESC HISTORY name [LIMIT n]``, as Delta has it."""

    name: Name
    limit: int | None

    @classmethod
    def parse(cls, cursor: Cursor) -> DescribeHistory:
        """Reads the statement."""
        cursor.take()
        cursor.expect_words("HISTORY")
        name = cursor.name()
        limit = cursor.integer("a number of snapshots") if cursor.accept_words("LIMIT") else None
        cursor.expect_end()
        return cls(cursor.source, name, limit)

    def run(self, session: Context) -> object:
        """One row a snapshot, the newest first. Raises NotFound; a relation of Spark's goes to Spark."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        return snapshot_log(session.tables.open(found[0]), self.limit)
