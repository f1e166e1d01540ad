"""CLEAR CACHE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ClearCache(ParsedStatement):
    """``CLEAR CACHE``."""

    needs: ClassVar[Privilege] = Privilege.WRITE

    @classmethod
    def parse(cls, cursor: TokenStream) -> ClearCache:
        """Reads the statement."""
        cursor.expect_words("CLEAR", "CACHE")
        cursor.expect_end()
        return cls(cursor.source)

    def run(self, session: SessionContext) -> object:
        """Clears the session's cache of lakelog's and Spark's tables."""
        session.engine.uncache_table(None)
        return session.engine.pass_through(self.source.text)
