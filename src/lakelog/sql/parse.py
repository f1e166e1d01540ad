"""Splits a script into statements and parses each with the class of its keywords."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakelog.errors import InternalError
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.ports import Engine
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.runtime.statement import ParsedStatement
from lakelog.sql.statements import PASS_THROUGH, STATEMENTS
from lakelog.sql.syntax.keywords import find_keywords
from lakelog.sql.syntax.lexer import Token, tokenize
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream


def parse_script(text: str) -> list[ParsedStatement]:
    """Parses all statements of ``a; b; …``, before any of them is run.

    Comments (``--`` and ``/* */``) are allowed anywhere; semicolons in them and in strings are ignored. Raises
    UnsupportedStatement with line, column, the line itself and a caret.
    """
    statements: list[ParsedStatement] = []
    piece: list[Token] = []
    for token in tokenize(text):
        if not token.is_symbol(";"):
            piece.append(token)
        elif piece:
            statements += _parse_tokens(text, piece)
            piece = []
    if piece:
        statements += _parse_tokens(text, piece)
    return statements


def _parse_tokens(script: str, tokens: Sequence[Token]) -> list[ParsedStatement]:
    """The statement; of ``FROM a INSERT INTO b SELECT … INSERT INTO c SELECT …`` each insert, with its own FROM."""
    if not tokens[0].is_word("FROM") or not (starts := _outside(tokens, "INSERT")):
        return [_parse_statement(script, tokens)]
    source = script[tokens[0].start : tokens[starts[0] - 1].end]
    statements: list[ParsedStatement] = []
    for start, end in pairwise([*starts, len(tokens)]):
        insert = tokens[start:end]
        selects = _outside(insert, "SELECT")
        if not selects:
            whole = SourceText(script, tokens[0].start, tokens[-1].end)
            raise whole.error(insert[0].start, "an INSERT after FROM needs its SELECT")
        select_start = insert[selects[0]].start
        statements += parse_script(
            f"{script[insert[0].start : select_start]}{source} {script[select_start : insert[-1].end]}"
        )
    return statements


def _outside(tokens: Sequence[Token], word: str) -> list[int]:
    """The positions of a keyword outside of parentheses."""
    positions, depth = [], 0
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word(word):
            positions.append(at)
    return positions


def _parse_statement(script: str, tokens: Sequence[Token]) -> ParsedStatement:
    source = SourceText(script, tokens[0].start, tokens[-1].end)
    try:
        for keywords in (find_keywords(tokens, set(STATEMENTS)) or PASS_THROUGH, PASS_THROUGH):
            statement: ParsedStatement | None = STATEMENTS.load(keywords).parse(TokenStream(source, tokens))
            if statement is not None:
                return statement
    except RecursionError:
        raise source.error(source.start, "the statement is nested too deeply: split it") from None
    raise InternalError(f"no statement class matches: {source.text[:80]}")


__all__ = ["Engine", "QueryPlan", "Session", "Source"]


class Session(SessionContext):
    """Runs statements in a current catalog and database."""

    def run(self, text: str) -> list[object]:
        """Runs the statements of a script in order; one result per statement.

        A result is a pyarrow Table for DDL, SHOW and DESCRIBE, and the engine's result otherwise. The whole script is
        parsed first, so if one statement is malformed, none runs. Raises the errors of the statements.
        """
        return [statement.run(self) for statement in parse_script(text)]
