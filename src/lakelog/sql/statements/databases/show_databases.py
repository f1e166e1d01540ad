"""SHOW DATABASES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, matching, text_rows
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class ShowDatabases(ParsedStatement):
    """``SHOW DATABASES|SCHEMAS [IN|FROM catalog] [[LIKE] 'pattern']``."""

    needs: ClassVar[Privilege] = Privilege.READ

    catalog: str | None
    pattern: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> ShowDatabases:
        """Reads the statement."""
        cursor.expect_words("SHOW")
        cursor.take()
        catalog, pattern = None, None
        if cursor.accept_words("IN") or cursor.accept_words("FROM"):
            catalog = cursor.name_part("a catalog name")
        if cursor.accept_words("LIKE") or cursor.peek() is not None:
            pattern = cursor.text_literal("IN, FROM, LIKE or a pattern in quotes")
        cursor.expect_end()
        return cls(cursor.source, catalog, pattern)

    def run(self, session: SessionContext) -> object:
        """One row per database: namespace. Raises NotFound for the catalog."""
        catalog = session.current_catalog if self.catalog is None else session.catalogs.need(self.catalog)
        names = matching(session.tables.list_databases(catalog), self.pattern)
        return text_rows(("namespace",), ((n,) for n in names))
