"""CREATE DATABASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class CreateDatabase(ParsedStatement):
    """``CREATE DATABASE|SCHEMA [IF NOT EXISTS] [catalog.]name [COMMENT …] [WITH DBPROPERTIES …]``."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    name: Name
    if_not_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> CreateDatabase:
        """Reads the statement; ignores a COMMENT and properties, because a database has no file for them."""
        cursor.expect_words("CREATE")
        cursor.take()
        if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
        name = cursor.name("a database name", most=2)
        if cursor.accept_words("COMMENT"):
            cursor.text_literal("the comment of the database")
        if cursor.accept_words("WITH", "DBPROPERTIES") or cursor.accept_words("WITH", "PROPERTIES"):
            cursor.options()
        cursor.expect_end()
        return cls(cursor.source, name, if_not_exists)

    def run(self, session: SessionContext) -> object:
        """Creates the database. Raises AlreadyExists unless IF NOT EXISTS."""
        catalog, database = session.resolve_database(self.name)
        session.tables.create_database(database, self.if_not_exists, catalog)
        return empty_result()
