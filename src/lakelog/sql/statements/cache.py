"""Statements about tables in Spark's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.catalog.base import Identifier
from lakelog.errors import NotFound
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import Name, TokenStream

_LEVEL: Final = "storagelevel"
_SPARKS_LEVEL: Final = "MEMORY_AND_DISK_DESER"


@dataclass(frozen=True)
class CacheTable(TableStatement, needs=Privilege.WRITE):
    """``CACHE [LAZY] TABLE name [OPTIONS ('storageLevel' = 'MEMORY_ONLY')]``; with a query it is Spark's."""

    lazy: bool
    level: str

    @classmethod
    def parse(cls, cursor: TokenStream) -> CacheTable | None:
        """Reads the statement; None if it has a query."""
        cursor.expect_words("CACHE")
        lazy = cursor.accept_words("LAZY")
        cursor.expect_words("TABLE")
        name = cursor.name(most=9)
        options = {}
        if cursor.accept_words("OPTIONS"):
            start_token = cursor.peek()
            options = {key.lower(): value for key, value in cursor.options().items()}
            if unknown := sorted(set(options) - {_LEVEL}):
                cursor.fail(f"unknown option '{unknown[0]}'; CACHE TABLE takes 'storageLevel'", start_token)
        if cursor.peek() is not None:
            return None
        return cls(cursor.source, name, lazy, options.get(_LEVEL, _SPARKS_LEVEL))

    def run(self, session: SessionContext) -> object:
        """Caches; a temporary view of this name comes before the table. Raises NotFound."""
        if session.is_hidden(self.name):
            return session.engine.pass_through(self.source.text)
        return super().run(session)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Caches the rows in the engine. Raises InvalidRequest, UnsupportedFeature."""
        session.engine.cache_table(identifier, self.level, self.lazy)
        return empty_result()


@dataclass(frozen=True)
class ClearCache(ParsedStatement, needs=Privilege.WRITE):
    """``CLEAR CACHE``."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> ClearCache:
        cursor.expect_words("CLEAR", "CACHE")
        cursor.expect_end()
        return cls(cursor.source)

    def run(self, session: SessionContext) -> object:
        """Clears the session's cache of lakelog's and Spark's tables."""
        session.engine.uncache_table(None)
        return session.engine.pass_through(self.source.text)


@dataclass(frozen=True)
class RefreshTable(TableStatement, needs=Privilege.READ):
    """``REFRESH TABLE name``."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> RefreshTable:
        cursor.expect_words("REFRESH", "TABLE")
        name = cursor.name()
        cursor.expect_end()
        return cls(cursor.source, name)

    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Does nothing, because every query reads the newest snapshot. Raises NotFound."""
        return empty_result()


@dataclass(frozen=True)
class UncacheTable(ParsedStatement, needs=Privilege.WRITE):
    """``UNCACHE TABLE [IF EXISTS] name``."""

    name: Name
    if_exists: bool

    @classmethod
    def parse(cls, cursor: TokenStream) -> UncacheTable:
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
            table = session.own_table(self.name)
        except NotFound:
            if self.if_exists:
                return empty_result()
            raise
        if table is None:
            return session.engine.pass_through(self.source.text)
        session.engine.uncache_table(table[0])
        return empty_result()
