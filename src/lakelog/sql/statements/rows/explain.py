"""EXPLAIN of statements that change rows; that of a query is Spark's, over lakelog's reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.sql.dml.explained import ExplainingSession
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege, text_rows
from lakelog.sql.statements import PASS_THROUGH, STATEMENTS
from lakelog.sql.syntax.keywords import find_keywords
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream

_MODES: Final = ("EXTENDED", "FORMATTED", "CODEGEN", "COST")


@dataclass(frozen=True)
class Explain(ParsedStatement, needs=Privilege.READ):
    """``EXPLAIN [EXTENDED|FORMATTED|CODEGEN|COST]`` of INSERT, UPDATE, DELETE, MERGE and others that say so."""

    head: str
    verb: str
    change: ParsedStatement

    @classmethod
    def parse(cls, cursor: TokenStream) -> Explain | None:
        """Reads the statement; None for EXPLAIN of another one. Raises UnsupportedStatement for that of CALL."""
        cursor.expect_words("EXPLAIN")
        mode = next((mode for mode in _MODES if cursor.accept_words(mode)), None)
        first, tokens = cursor.peek(), cursor.tokens[cursor.at :]
        if first is None:
            return None
        keywords = find_keywords(tokens, set(STATEMENTS)) or PASS_THROUGH
        explained: type[ParsedStatement] = STATEMENTS.load(keywords)
        if not explained.is_explained and not explained.explain_fault:
            return None
        inner = SourceText(cursor.source.script, first.start, cursor.source.end)
        change = explained.parse(TokenStream(inner, tokens))
        if change is not None and explained.explain_fault:
            raise inner.error(first.start, explained.explain_fault)
        head = "EXPLAIN " if mode is None else f"EXPLAIN {mode} "
        return None if change is None else cls(cursor.source, head, keywords.split()[0], change)

    def run(self, session: SessionContext) -> object:
        """The write and the plan of its rows, without writing them. Raises the errors of the statement itself."""
        explaining = ExplainingSession(session, self.head, self.verb)
        of_spark = self.change.run(explaining)
        write = explaining.write
        if write is None:
            return of_spark
        if write.plan is None:
            return text_rows(["plan"], [[f"== Write ==\n{write.text}"]])
        return session.run_query(write.plan.with_prefix(self.head, write.text))
