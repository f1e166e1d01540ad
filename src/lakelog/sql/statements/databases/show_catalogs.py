"""SHOW CATALOGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, text_rows
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ShowCatalogs(ParsedStatement):
    """``SHOW CATALOGS``."""

    needs: ClassVar[Privilege] = Privilege.READ

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowCatalogs:
        """Reads the statement."""
        cursor.expect_words("SHOW", "CATALOGS")
        cursor.expect_end()
        return cls(cursor.source)

    def run(self, session: SessionContext) -> object:
        """One row per catalog, the first one first; aliases of older manuals are not listed."""
        return text_rows(("catalog",), ((name,) for name in session.catalogs.all()))
