"""DESCRIBE HISTORY."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakelog.catalog.base import Identifier
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.statement import ParsedStatement
from lakelog.table.views import scan_of

_COLUMNS = {
    "version": "snapshot_id",
    "timestamp": "commit_time",
    "operation": "commit_kind",
    "user": "commit_user",
    "schema_id": "schema_id",
    "rows": "total_record_count",
    "rows_added": "delta_record_count",
    "changes": "changelog_record_count",
    "watermark": "watermark",
}
"""Column of the answer → column of ``$snapshots``."""


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
        identifier = found[0]
        rows = scan_of(session.tables.open(Identifier(identifier.database, f"{identifier.table}$snapshots")))
        taken: pa.Table = rows.select(list(_COLUMNS.values())).to_arrow().rename_columns(list(_COLUMNS))
        newest = taken.sort_by([("version", "descending")])
        return newest if self.limit is None else newest.slice(0, self.limit)
