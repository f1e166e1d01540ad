"""The base of all statements: what the parser makes and a session runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from lakelog.catalog.base import Identifier
from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.privilege import Privilege
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream


@dataclass(frozen=True)
class ParsedStatement(ABC):
    """One statement, understood but not run. Names are resolved when it runs, so that USE before it counts."""

    needs: ClassVar[Privilege]
    """The right to run it; what a query hands to Spark may need more (``spark/guard/plan_guard.py``)."""

    source: SourceText

    @classmethod
    @abstractmethod
    def parse(cls, cursor: TokenStream) -> ParsedStatement | None:
        """Reads the statement from its first token on; None means that the statement is Spark's, not lakelog's.

        Raises UnsupportedStatement with line and column.
        """

    @abstractmethod
    def run(self, session: SessionContext) -> object:
        """Does it. DDL, SHOW and DESCRIBE return a pyarrow Table, queries what the engine returns."""


@dataclass(frozen=True)
class TableStatement(ParsedStatement):
    """A statement about one table; on a relation that only Spark has it is Spark's."""

    name: Name

    def run(self, session: SessionContext) -> object:
        """Does it. Raises NotFound for a name that neither lakelog nor Spark knows."""
        found = session.own_table(self.name)
        return session.engine.pass_through(self.source.text) if found is None else self.run_on(session, *found)

    @abstractmethod
    def run_on(self, session: SessionContext, identifier: Identifier, schema: TableSchema) -> object:
        """Does it to a lakelog table."""
