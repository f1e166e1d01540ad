"""DESCRIBE HISTORY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.token_stream import TokenStream
from lakelog.table.system.history.history import snapshot_log


@dataclass(frozen=True)
class DescribeHistory(TableStatement):
    """``DESCRIBE|DESC HISTORY name [LIMIT n]``, in Delta's syntax."""

    needs: ClassVar[Privilege] = Privilege.READ

    limit: int | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> DescribeHistory:
        """Reads the statement."""
        cursor.take()
        cursor.expect_words("HISTORY")
        name = cursor.name()
        limit = cursor.integer("a number of snapshots") if cursor.accept_words("LIMIT") else None
        cursor.expect_end()
        return cls(cursor.source, name, limit)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per snapshot, newest first. Raises NotFound."""
        return snapshot_log(session.tables.open(identifier), self.limit)
