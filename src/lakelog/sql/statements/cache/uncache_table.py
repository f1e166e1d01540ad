"""UNCACHE TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.errors import NotFound
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class UncacheTable(ParsedStatement):
    """``UNCACHE TABLE [IF EXISTS] name``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    name: Name
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> UncacheTable:
        """Reads the statement."""
        cursor.expect_words("UNCACHE", "TABLE")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name(most=9)
        cursor.expect_end()
        return cls(cursor.source, name, if_exists)

    def run(self, session: SessionContext) -> object:
        """Removes the cached rows; a temporary view of this name has priority. Raises NotFound unless IF EXISTS."""
        if session.is_hidden(self.name):
            return session.engine.pass_through(self.source.text)
        try:
            found = session.own_table(self.name)
        except NotFound:
            if self.if_exists:
                return empty_result()
            raise
        if found is None:
            return session.engine.pass_through(self.source.text)
        session.engine.uncache_table(found[0])
        return empty_result()
