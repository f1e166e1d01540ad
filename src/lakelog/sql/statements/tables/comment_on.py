"""COMMENT ON TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.changes import ChangeTableComment
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class CommentOn(TableStatement):
    """``COMMENT ON TABLE name IS 'text'|NULL``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    comment: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> CommentOn:
        """Reads the statement."""
        cursor.expect_words("COMMENT", "ON", "TABLE")
        name = cursor.name()
        cursor.expect_words("IS")
        comment = None if cursor.accept_words("NULL") else cursor.text_literal("a comment in quotes, or NULL")
        cursor.expect_end()
        return cls(cursor.source, name, comment)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Sets or removes the comment of the table. Raises NotFound."""
        session.tables.alter_table(identifier, [ChangeTableComment(self.comment)])
        return empty_result()
