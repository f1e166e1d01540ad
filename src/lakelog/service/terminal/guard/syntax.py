"""A first syntax check of a text: certain errors are refused before Spark starts and before any statement runs.

It checks the first words of statements and the brackets. Everything else is left to the statement's own parser, or to
Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.errors import did_you_mean
from lakelog.sql.statements import STATEMENTS
from lakelog.sql.syntax.lexer import Kind, Token, tokenize
from lakelog.sql.syntax.source_text import SourceText

_SPARKS: Final = {
    "ADD", "ALTER", "ANALYZE", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "CREATE", "DECLARE", "DELETE", "DESC",
    "DESCRIBE", "DFS", "DROP", "EXECUTE", "EXPLAIN", "EXPORT", "FROM", "GRANT", "IMPORT", "INSERT", "LIST", "LOAD",
    "LOCK", "MAP", "MERGE", "MSCK", "REDUCE", "REFRESH", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK",
    "SELECT", "SET", "SHOW", "START", "TABLE", "TRUNCATE", "UNCACHE", "UNLOCK", "UPDATE", "USE", "VALUES", "WITH",
}  # fmt: skip
_CLOSING: Final = {"(": ")", "[": "]"}


def check_syntax(text: str) -> None:
    """Raises UnsupportedStatement, with the position, for a text that no parser accepts."""
    piece: list[Token] = []
    pieces = [piece]
    for token in tokenize(text):
        if token.is_symbol(";"):
            piece = []
            pieces.append(piece)
        else:
            piece.append(token)
    pieces = [one for one in pieces if one]
    if any(one[0].is_word("BEGIN") for one in pieces):  # a compound statement, which Spark reads as a whole
        return
    for one in pieces:
        source = SourceText(text, one[0].start, one[-1].end)
        _check_first(source, one[0])
        _check_brackets(source, one)


def _check_first(source: SourceText, first: Token) -> None:
    known = _SPARKS | {key.split()[0] for key in STATEMENTS if key[:1].isalpha()}
    if first.is_symbol("(") or (first.kind is Kind.WORD and first.text.upper() in known):
        return
    hint = did_you_mean(first.text, sorted(known))
    raise source.error(first.start, f"no statement begins with '{first.text[:40]}'{hint}")


def _check_brackets(source: SourceText, tokens: Sequence[Token]) -> None:
    opened: list[Token] = []
    for token in tokens:
        if token.kind is not Kind.SYMBOL:
            continue
        if token.text in _CLOSING:
            opened.append(token)
        elif token.text in _CLOSING.values():
            if not opened or _CLOSING[opened[-1].text] != token.text:
                raise source.error(token.start, f"'{token.text}' has no opening bracket")
            opened.pop()
    if opened:
        raise source.error(opened[-1].start, f"'{opened[-1].text}' is not closed")
