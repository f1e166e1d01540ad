"""CACHE TABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import Privilege, TableStatement, empty_result
from lakelog.sql.syntax.token_stream import TokenStream

_LEVEL: Final = "storagelevel"
_SPARKS_LEVEL: Final = "MEMORY_AND_DISK_DESER"


@dataclass(frozen=True)
class CacheTable(TableStatement):
    """``CACHE [LAZY] TABLE name [OPTIONS ('storageLevel' = 'MEMORY_ONLY')]``; with a query it is Spark's."""

    needs: ClassVar[Privilege] = Privilege.WRITE

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
