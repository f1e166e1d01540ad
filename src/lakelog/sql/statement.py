"""The base of all statements: what the parser makes and a session runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lakelog.sql.context import Context
from lakelog.sql.cursor import Cursor
from lakelog.sql.script import StatementText


@dataclass(frozen=True)
class ParsedStatement(ABC):
    """One statement, understood but not run. Names are resolved when it runs, so that USE before it counts."""

    source: StatementText

    @classmethod
    @abstractmethod
    def parse(cls, cursor: Cursor) -> ParsedStatement | None:
        """Reads the statement from its first token on; None means that the statement is Spark's, not lakelog's.

        Raises UnsupportedStatement with line and column.
        """

    @abstractmethod
    def run(self, session: Context) -> object:
        """Does it. DDL, SHOW and DESCRIBE return a pyarrow Table, queries what the engine returns."""
