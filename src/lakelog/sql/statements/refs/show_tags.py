"""SHOW TAGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, text_rows
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ShowTags(TableStatement):
    """``SHOW TAGS [IN|FROM] name``, in Paimon's syntax."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowTags:
        """Reads the statement."""
        cursor.expect_words("SHOW", "TAGS")
        if cursor.peek(1) is not None and not cursor.accept_words("IN"):
            cursor.accept_words("FROM")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """One row per tag, by name: tag. Raises NotFound."""
        tags = session.tables.open(identifier).store.tags.list()
        return text_rows(("tag",), ((name,) for name in sorted(tag.name for tag in tags)))
