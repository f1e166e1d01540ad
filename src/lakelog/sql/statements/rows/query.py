"""SELECT, WITH, VALUES, FROM … SELECT."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Query(ParsedStatement, needs=Privilege.READ):
    """A query over lakelog tables, Spark tables and views, with read options as hints."""

    @classmethod
    def parse(cls, cursor: TokenStream) -> Query:
        """Checks parentheses and commas; the rest is read when it runs, because names are resolved only then."""
        cursor.check_parentheses()
        cursor.check_commas()
        return cls(cursor.source)

    def run(self, session: SessionContext) -> object:
        """The engine's DataFrame. Raises NotFound, InvalidOption, UnsupportedStatement."""
        return session.run_query(plan_query(session, self.source))
