"""DROP DATABASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, empty_result
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class DropDatabase(ParsedStatement):
    """``DROP DATABASE|SCHEMA [IF EXISTS] [catalog.]name [CASCADE|RESTRICT]``."""

    needs: ClassVar[Privilege] = Privilege.ADMIN

    name: Name
    if_exists: bool
    cascade: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> DropDatabase:
        """Reads the statement."""
        cursor.expect_words("DROP")
        cursor.take()
        if_exists = cursor.accept_words("IF", "EXISTS")
        name = cursor.name("a database name", most=2)
        cascade = cursor.accept_words("CASCADE")
        if not cascade:
            cursor.accept_words("RESTRICT")
        cursor.expect_end()
        return cls(cursor.source, name, if_exists, cascade)

    def run(self, session: SessionContext) -> object:
        """Drops the database. Raises NotFound unless IF EXISTS."""
        catalog, database = session.resolve_database(self.name)
        if self.cascade and database in session.tables.list_databases(catalog):
            for table in session.tables.list_tables(database, catalog):
                session.engine.uncache_table(Identifier(database, table, catalog))
        session.tables.drop_database(database, self.if_exists, self.cascade, catalog)
        return empty_result()
