"""Splits a script into statements and parses each with the class of its keywords."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakelog.errors import InternalError
from lakelog.sql.runtime.context import SessionContext
from lakelog.sql.runtime.ports import Engine, Tables
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.runtime.statement import ParsedStatement
from lakelog.sql.statements import PASS_THROUGH, STATEMENTS
from lakelog.sql.syntax.lexer import Kind, Token, tokenize
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import TokenStream

_VERBS = ("SELECT", "INSERT", "FROM", "VALUES", "UPDATE", "DELETE", "MERGE")
_DESCRIBED = ("HISTORY", "DETAIL", "DATABASE", "SCHEMA", "NAMESPACE")


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
    found: list[ParsedStatement] = []
    for start, end in pairwise([*starts, len(tokens)]):
        insert = tokens[start:end]
        selects = _outside(insert, "SELECT")
        if not selects:
            whole = SourceText(script, tokens[0].start, tokens[-1].end)
            raise whole.error(insert[0].start, "an INSERT after FROM needs its SELECT")
        select_start = insert[selects[0]].start
        found += parse_script(
            f"{script[insert[0].start : select_start]}{source} {script[select_start : insert[-1].end]}"
        )
    return found


def _outside(tokens: Sequence[Token], word: str) -> list[int]:
    """The positions of a keyword outside of parentheses."""
    found, depth = [], 0
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word(word):
            found.append(at)
    return found


def _parse_statement(script: str, tokens: Sequence[Token]) -> ParsedStatement:
    source = SourceText(script, tokens[0].start, tokens[-1].end)
    try:
        for keywords in (_find_keywords(tokens), PASS_THROUGH):
            statement: ParsedStatement | None = STATEMENTS.load(keywords).parse(TokenStream(source, tokens))
            if statement is not None:
                return statement
    except RecursionError:
        raise source.error(source.start, "the statement is nested too deeply: split it") from None
    raise InternalError(f"no statement class matches: {source.text[:80]}")


def _find_keywords(tokens: Sequence[Token]) -> str:
    """The longest registered keywords at the start of the statement, after any WITH expressions."""
    if tokens[0].is_word("WITH"):
        verb = _verb_after_expressions(tokens)
        return "WITH" if verb in ("SELECT", "FROM", "VALUES", "") else verb if verb in STATEMENTS else PASS_THROUGH
    if tokens[0].is_word("ALTER"):
        for change in ("DROP", "ADD"):
            if _changes_partition(tokens, change):
                return f"ALTER TABLE {change} PARTITION"
        if reference := _changed_reference(tokens):
            return f"ALTER TABLE {reference}"
    if tokens[0].is_word("CREATE", "REPLACE") and (template := _template(tokens)):
        taken = f"{tokens[0].text.upper()} TABLE {template}"
        if taken in STATEMENTS:
            return taken
    words = [token.text.upper() for token in tokens[:3]]
    is_name = len(tokens) == 2 or (len(tokens) > 2 and tokens[2].is_symbol("."))
    if words[0] in ("DESCRIBE", "DESC") and is_name and words[1] in _DESCRIBED:
        return words[0]  # a table of that name
    for length in range(len(words), 0, -1):
        if " ".join(words[:length]) in STATEMENTS:
            return " ".join(words[:length])
    return PASS_THROUGH


def _verb_after_expressions(tokens: Sequence[Token]) -> str:
    depth = 0
    for token in tokens:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word(*_VERBS):
            return token.text.upper()
    return ""


def _changes_partition(tokens: Sequence[Token], change: str) -> bool:
    """Returns whether ``DROP|ADD [IF [NOT] EXISTS] PARTITION`` follows the table's name, but not Iceberg's FIELD."""
    words = [token.text.upper() if token.kind is Kind.WORD else "" for token in tokens]
    for at, word in enumerate(words):
        if word == change:
            behind = [w for w in words[at + 1 : at + 5] if w not in ("IF", "NOT", "EXISTS")]
            return behind[:1] == ["PARTITION"] and behind[1:2] != ["FIELD"]
    return False


def _changed_reference(tokens: Sequence[Token]) -> str:
    """``TAG`` or ``BRANCH`` between a verb and a name; "" if it is the name of a column, as in DROP tag."""
    for at in range(3, len(tokens) - 1):
        token, before, after = tokens[at], tokens[at - 1], tokens[at + 1]
        verb = tokens[at - 3] if before.is_word("REPLACE") and tokens[at - 2].is_word("OR") else before
        named = after.kind in (Kind.WORD, Kind.QUOTED) and not after.is_word("TO")
        if token.is_word("TAG", "BRANCH") and verb.is_word("CREATE", "REPLACE", "DROP", "DELETE", "RENAME") and named:
            return token.text.upper()
    return ""


def _template(tokens: Sequence[Token]) -> str:
    """The source of the columns of CREATE TABLE: ``LIKE`` another table, ``AS`` a query, "" for its own text."""
    depth, table = 0, next((at for at, token in enumerate(tokens[:4]) if token.is_word("TABLE")), len(tokens))
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and at > table + 1 and token.kind is Kind.WORD:
            if token.is_word("LIKE"):
                return "LIKE"
            if token.is_word("SELECT") or (token.is_word("AS") and not tokens[at - 1].is_word("STORED")):
                return "AS"
    return ""


__all__ = ["Engine", "QueryPlan", "Session", "Source", "Tables"]


class Session(SessionContext):
    """Runs statements in a current catalog and database."""

    def run(self, text: str) -> list[object]:
        """Runs the statements of a script in order; one result per statement.

        A result is a pyarrow Table for DDL, SHOW and DESCRIBE, and the engine's result otherwise. The whole script is
        parsed first, so if one statement is malformed, none runs. Raises the errors of the statements.
        """
        return [statement.run(self) for statement in parse_script(text)]
