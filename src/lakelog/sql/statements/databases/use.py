"""USE and SET CATALOG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.errors import LakelogError
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.lexer import Kind, string_value
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Use(ParsedStatement):
    """``USE db``, ``USE catalog.db``, ``USE CATALOG c``, ``USE DATABASE db``, ``SET CATALOG c``."""

    needs: ClassVar[Privilege] = Privilege.READ

    catalog: str | None
    database: str | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> Use:
        """Reads the statement. The name of SET CATALOG may be in quotes."""
        if cursor.accept_words("SET", "CATALOG") or _with_name(cursor, "CATALOG"):
            token = cursor.peek()
            quoted = token is not None and token.kind is Kind.STRING
            name = string_value(cursor.take()) if quoted else cursor.name_part("a catalog name")
            cursor.expect_end()
            return cls(cursor.source, name, None)
        if not any(_with_name(cursor, word) for word in ("DATABASE", "SCHEMA", "NAMESPACE")):
            cursor.expect_words("USE")
        found = cursor.name("a database name", most=2)
        cursor.expect_end()
        return cls(cursor.source, found.parts[0] if len(found.parts) == 2 else None, found.parts[-1])

    def run(self, session: SessionContext) -> object:
        """Changes the session. Raises NotFound and leaves the session unchanged."""
        before = session.current_catalog, session.database
        try:
            if self.catalog is not None:
                session.use_catalog(self.catalog)
            if self.database is not None and self.catalog is None and session.is_catalog_alone(self.database):
                session.use_catalog(self.database)
            elif self.database is not None:
                session.use_database(self.database)
        except LakelogError:
            session.current_catalog, session.database = before
            raise
        return empty_result()


def _with_name(cursor: TokenStream, word: str) -> bool:
    """Skips ``USE word`` if a name follows, so that a database may be called ``schema``."""
    after = cursor.peek(2)
    return after is not None and not after.is_symbol(".") and cursor.accept_words("USE", word)
