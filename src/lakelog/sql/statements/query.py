"""SELECT, WITH, VALUES, FROM … SELECT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import Context
from lakelog.sql.runtime.privilege import Right
from lakelog.sql.runtime.statement import ParsedStatement
from lakelog.sql.syntax.token_stream import Cursor


@dataclass(frozen=True)
class Query(ParsedStatement):
    """A query over lakelog tables, Spark tables and views, with read options as hints."""

    needs: ClassVar[Right] = Right.READ

    @classmethod
    def parse(cls, cursor: Cursor) -> Query:
        """Checks the parentheses; the rest is read when it runs, because names mean tables only then."""
        cursor.check_parentheses()
        return cls(cursor.source)

    def run(self, session: Context) -> object:
        """The engine's DataFrame. Raises NotFound, InvalidOption, UnsupportedStatement."""
        return session.run_query(plan_query(session, self.source))
