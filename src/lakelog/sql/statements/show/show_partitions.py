"""SHOW PARTITIONS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidRequest
from lakelog.options.option import Options
from lakelog.options.table import PARTITION_DEFAULT_NAME
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.clauses import PartitionClause, read_partition
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.system import SYSTEM_TABLES


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
        rows = SYSTEM_TABLES.create("partitions", session.tables.open(identifier))
        names = rows.select(["partition"]).to_arrow().column(0).to_pylist()
        null = Options(schema.options).need(PARTITION_DEFAULT_NAME)
        given = {} if self.chosen is None else self.chosen.own_values(schema, self.name)
        wanted = {f"{name}={null if value is None else value}" for name, value in given.items()}
        return text_rows(("partition",), ((name,) for name in names if wanted <= set(name.split("/"))))
