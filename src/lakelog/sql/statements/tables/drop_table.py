"""DROP TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class DropTable(ParsedStatement):
    """``DROP TABLE [IF EXISTS] name [PURGE]``; a table of Spark only is dropped by Spark."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    name: Name
    if_exists: bool
    purge: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropTable:
        """Reads the statement."""
        cursor.expect_words("DROP", "TABLE")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name()
        purge = cursor.accept_words("PURGE")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists, purge)

    def run(self, session: SessionContext) -> object:
        """Drops the table. Raises NotFound unless IF EXISTS."""
        identifier = session.find(self.name)
        known = identifier is not None and session.exists(identifier)
        if not known and session.engine.is_spark_relation(self.name.sql):
            return session.engine.pass_through(self.source.text)
        if not known and not self.if_exists:
            raise session.no_table(self.name)
        dropped = session.resolve(self.name)
        if known:
            session.engine.uncache_table(dropped)
        session.tables.drop_table(dropped, self.if_exists, self.purge)
        return empty_result()
