"""Statements of Spark, which lakelog does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotInstalled, did_you_mean
from lakelog.sql.query.planner import plan_query
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.statement import ParsedStatement, Privilege
from lakelog.sql.statements import STATEMENTS
from lakelog.sql.syntax.lexer import Kind, tokenize
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream

# Statements with a table name after these words; Spark does not know lakelog's tables.
_ON_TABLES = (("MSCK", "REPAIR", "TABLE"),)
_TEMPORARY = frozenset(("TEMP", "TEMPORARY"))
_FIRST_WORDS: Final = frozenset(
    ("ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "CLOSE", "COMMENT", "CREATE", "DECLARE", "DELETE",
     "DESC", "DESCRIBE", "DFS", "DROP", "EXECUTE", "EXPLAIN", "FETCH", "FROM", "GRANT", "INSERT", "LIST", "LOAD",
     "LOCK", "MAP", "MERGE", "MSCK", "OPEN", "OPTIMIZE", "REDUCE", "REFRESH", "REPAIR", "REPLACE", "RESET", "RESTORE",
     "REVOKE", "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE", "UNCACHE", "UNLOCK", "UNSET", "UPDATE", "USE",
     "VACUUM", "VALUES", "WITH")
)  # fmt: skip
"""Words that begin statements of Spark, of lakelog and of common extensions."""
_WHAT_WORKS = "CREATE, ALTER and DROP TABLE, INSERT, UPDATE, DELETE, MERGE, SELECT, DESCRIBE and SHOW work"


@dataclass(frozen=True)
class PassThrough(ParsedStatement, needs=Privilege.READ):
    """A statement for Spark.

    ``table`` is the table that it would change (with the words ``verb``); ``query`` is the query in it
    (EXPLAIN SELECT …, CREATE TEMPORARY VIEW … AS SELECT …), which may read lakelog tables.
    """

    verb: str
    table: Name | None
    query: SourceText | None

    @classmethod
    def parse(cls, cursor: TokenStream) -> PassThrough:
        verb, table = "", None
        for words in _ON_TABLES:
            if cursor.accept_words(*words):
                follows = cursor.peek()
                named = follows is not None and follows.kind in (Kind.WORD, Kind.QUOTED)
                verb, table = " ".join(words), cursor.name(most=9) if named else None
                break
        return cls(cursor.source, verb, table, _query_inside(cursor))

    def run(self, session: SessionContext) -> object:
        """The engine's result.

        Raises UnsupportedStatement for a statement about a lakelog table, and for a view of one that Spark would store.
        """
        if self.table is not None and self.query is None and len(self.table.parts) <= 3:
            identifier = session.find(self.table)
            if identifier is not None and session.exists(identifier):
                raise self.source.error(
                    self.source.start, f"{self.verb} is not supported for lakelog table '{self.table}'; {_WHAT_WORKS}"
                )
        if self.query is not None:
            head = self.source.script[self.source.start : self.query.start]
            words = head.upper().split()
            plan = plan_query(session, self.query, strict=False, persistent=bool({"VIEW", "CACHE"} & set(words)))
            if plan.reads_tables:
                if "VIEW" in words and not _TEMPORARY & set(words[: words.index("VIEW")]):
                    raise self.source.error(
                        self.source.start,
                        "a view of lakelog tables lives as long as its session: write CREATE TEMPORARY VIEW, and a "
                        "name without a database",
                    )
                return session.run_query(plan.with_prefix(head))
        self._check_first_word()
        try:
            return session.engine.pass_through(self.source.text)
        except NotInstalled:
            start = " ".join(self.source.text.upper().split()[:2])
            if near := did_you_mean(start, [*STATEMENTS, "SELECT"]):
                raise self.source.error(self.source.start, f"'{start}' begins no statement{near}") from None
            raise

    def _check_first_word(self) -> None:
        """Raises UnsupportedStatement if the first word is close to one that begins statements."""
        first = next((token for token in tokenize(self.source.text) if token.kind is Kind.WORD), None)
        if first is None or first.text.upper() in _FIRST_WORDS:
            return
        if near := did_you_mean(first.text, sorted(_FIRST_WORDS)):
            raise self.source.error(self.source.start, f"'{first.text}' begins no statement{near}")


def _query_inside(cursor: TokenStream) -> SourceText | None:
    """The text from the first SELECT (or the WITH before it) outside of parentheses to the end."""
    depth = 0
    for i, token in enumerate(cursor.tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        named = i + 2 < len(cursor.tokens) and cursor.tokens[i + 2].is_word("AS")
        if depth == 0 and i and (token.is_word("SELECT") or (token.is_word("WITH") and named)):
            return SourceText(cursor.source.script, token.start, cursor.source.end)
    return None
