"""What EXPLAIN tells of a statement that changes rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

from lakelog.catalog.base import Identifier
from lakelog.sql.dml.row_changes import RowChange
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.query_plan import QueryPlan
from lakelog.sql.runtime.statement import ParsedStatement
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream


@dataclass(frozen=True)
class Explanation:
    """How rows are written, as text, and the plan of the rows; None if no row is read."""

    text: str
    plan: QueryPlan | None = None


class ChangingStatement(ParsedStatement):
    """A statement that changes rows of a table."""

    @classmethod
    @abstractmethod
    def parse(cls, cursor: TokenStream) -> Self | None:
        """Parses the statement, as ``ParsedStatement.parse``."""

    @abstractmethod
    def explanation(self, session: SessionContext) -> Explanation | None:
        """What the statement would do, without doing it; None for a table of Spark. Raises as ``run`` does."""


def explained_change(session: SessionContext, identifier: Identifier, verb: str, change: RowChange) -> Explanation:
    """The explanation of UPDATE, DELETE, MERGE or REPLACE WHERE."""
    if change.target.keys:
        text, query = f"{verb} {identifier}: writes these rows with their row kinds", change.changes()
    else:
        text = f"{verb} {identifier}: replaces the data files that have such rows by files with these rows"
        query = change.left()
    return Explanation(text, plan_query(session, SourceText(query, 0, len(query)), own=True))
