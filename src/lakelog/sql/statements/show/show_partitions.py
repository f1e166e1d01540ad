"""SHOW PARTITIONS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.paimon.rows.display import partition_path
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.model.partition_selection import OverwriteTarget, partition_values
from lakelog.table.system.files.file_counts import count_files


@dataclass(frozen=True)
class ShowPartitions(TableStatement):
    """``SHOW PARTITIONS name [PARTITION (…)]``."""

    needs: ClassVar[Privilege] = Privilege.READ

    chosen: PartitionClause | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowPartitions:
        """Reads the statement."""
        cursor.expect_words("SHOW", "PARTITIONS")
        name = cursor.name()
        chosen = read_partition(cursor, must_have_values=True)
        cursor.expect_end()
        return cls(cursor.source, name, chosen)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per partition with files, such as ``day=2024-01-31/hour=7``. Raises NotFound, InvalidRequest."""
        if not schema.partition_keys:
            raise InvalidRequest(f"table '{self.name}' has no partitions: it was created without PARTITIONED BY")
        table, zone = session.tables.open(identifier), session.engine.zone
        given = {} if self.chosen is None else self.chosen.own_values(schema, self.name, zone)
        chosen = OverwriteTarget(partition_values(schema, given, table.name))
        live = count_files(table.store, table.store.latest_snapshot(), by_bucket=False)
        null = Options(schema.options).need(PARTITION_DEFAULT_NAME)
        names = [partition_path(p, schema, null, zone) for p, _ in live if chosen.matches(p, schema)]
        return text_rows(("partition",), ((name,) for name in sorted(names)))
