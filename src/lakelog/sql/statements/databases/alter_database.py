"""ALTER DATABASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class AlterDatabase(ParsedStatement):
    """``ALTER DATABASE|SCHEMA|NAMESPACE [catalog.]name …`` of a database of Spark only."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    name: Name

    @classmethod
    def parse(cls, cursor: TokenStream) -> AlterDatabase:
        """Reads the name; the rest is Spark's."""
        cursor.expect_words("ALTER")
        cursor.take()
        return cls(cursor.source, cursor.name("a database name", most=9))

    def run(self, session: SessionContext) -> object:
        """Spark's result. Raises UnsupportedStatement for a database of lakelog, which has no file for properties."""
        if session.own_database(self.name) is not None:
            raise self.source.error(
                self.source.start,
                f"a lakelog database has no properties: set them on the tables of '{self.name}'",
            )
        return session.engine.pass_through(self.source.text)
