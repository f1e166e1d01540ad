"""DROP CATALOG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class DropCatalog(ParsedStatement):
    """``DROP CATALOG [IF EXISTS] name``: removes it from the session, and leaves its contents."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    name: str
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropCatalog:
        """Reads the statement."""
        cursor.expect_words("DROP", "CATALOG")
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name_part("a catalog name")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists)

    def run(self, session: SessionContext) -> object:
        """Removes it. Raises NotFound unless IF EXISTS, InvalidRequest for the first and the current one."""
        if not self.if_exists or session.catalogs.has(self.name):
            session.drop_catalog(self.name)
        return empty_result()
