"""RESTORE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.read.time_travel import millis_of


@dataclass(frozen=True)
class Restore(TableStatement):
    """``RESTORE [TABLE] name TO VERSION AS OF n|'tag'`` or ``TO TIMESTAMP AS OF 'time'``, in Delta's syntax.

    ``argument`` is that of ``CALL sys.rollback_to``: snapshot, tag or timestamp.
    """

    needs: ClassVar[Privilege] = Privilege.ADMIN

    argument: str
    value: str | int

    @classmethod
    def parse(cls, cursor: TokenStream) -> Restore:
        """Reads the statement."""
        cursor.expect_words("RESTORE")
        cursor.accept_words("TABLE")
        name = cursor.name()
        cursor.expect_words("TO")
        if cursor.accept_words("TIMESTAMP", "AS", "OF"):
            return cls._ended(cursor, name, "timestamp", cursor.text_literal("a time in quotes"))
        cursor.expect_words("VERSION", "AS", "OF")
        if cursor.at_text():
            return cls._ended(cursor, name, "tag", cursor.text_literal("a tag"))
        return cls._ended(cursor, name, "snapshot", cursor.integer("the id of a snapshot, or a tag in quotes"))

    @classmethod
    def _ended(cls, cursor: TokenStream, name: Name, argument: str, value: str | int) -> Restore:
        cursor.expect_end()
        return cls(cursor.source, name, argument, value)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Makes the older state the newest; returns its snapshot's id. Raises NotFound, InvalidRequest."""
        value = millis_of(self.value, session.engine.zone) if self.argument == "timestamp" else self.value
        table = session.tables.open(identifier)
        return PROCEDURES.load("rollback_to").call(table, [], {self.argument: value}, session.engine)
