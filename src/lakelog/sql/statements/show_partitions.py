"""SHOW PARTITIONS."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.sql.clauses import PartitionClause, read_partition
from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor, Name
from lakelog.sql.result import text_rows
from lakelog.sql.statement import ParsedStatement
from lakelog.table.views import scan_of


@dataclass(frozen=True)
class ShowPartitions(ParsedStatement):
    """``SHOW PARTITIONS name [PARTITION (…)]``."""

    name: Name
    chosen: PartitionClause | None

    @classmethod
    def parse(cls, cursor: Cursor) -> ShowPartitions:
        """Reads the statement."""
        cursor.expect_words("SHOW", "PARTITIONS")
        name = cursor.name()
        chosen = read_partition(cursor, must_have_values=True)
        cursor.expect_end()
        return cls(cursor.source, name, chosen)

    def run(self, session: Context) -> object:
        """One row a partition that has files, like ``day=2024-01-31/hour=7``. Raises NotFound, InvalidRequest."""
        found = session.own_table(self.name)
        if found is None:
            return session.engine.pass_through(self.source.text)
        identifier, schema = found
        if not schema.partition_keys:
            raise InvalidRequest(f"table '{self.name}' has no partitions: it was created without PARTITIONED BY")
        rows = scan_of(session.tables.open(Identifier(identifier.database, f"{identifier.table}$partitions")))
        names = rows.select(["partition"]).to_arrow().column(0).to_pylist()
        null = Options(schema.options).need(PARTITION_DEFAULT_NAME)
        given = {} if self.chosen is None else self.chosen.own_values(schema, self.name)
        wanted = {f"{name}={null if value is None else value}" for name, value in given.items()}
        return text_rows(("partition",), ((name,) for name in names if wanted <= set(name.split("/"))))
