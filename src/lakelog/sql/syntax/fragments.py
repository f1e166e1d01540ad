"""Pieces of a statement that are copied into a query unchanged: expressions, relations, assignments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakelog.sql.syntax.clauses import read_options
from lakelog.sql.syntax.lexer import Kind, quoted_name
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream, part_value

_TRAVELS = ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")


@dataclass(frozen=True)
class DmlTarget:
    """The target table of a statement: its name, alias, and the options of its hint."""

    name: Name
    alias: str
    options: Mapping[str, str]


def read_changed_table(cursor: TokenStream, *stops: str) -> DmlTarget:
    """Reads ``name [/*+ OPTIONS(…) */] [[AS] alias]``; the words of ``stops`` are no alias."""
    name = cursor.name()
    options = read_options(cursor)
    alias = _read_alias(cursor, stops)
    return DmlTarget(name, alias or name.parts[-1], options | read_options(cursor))


def _read_alias(cursor: TokenStream, stops: tuple[str, ...]) -> str | None:
    if cursor.accept_words("AS"):
        return cursor.name_part("an alias")
    token = cursor.peek()
    if token is not None and token.kind in (Kind.WORD, Kind.QUOTED) and not token.is_word(*stops):
        return cursor.name_part("an alias")
    return None


def read_fragment(cursor: TokenStream, what: str, *stops: str, comma: bool = False) -> str:
    """Reads an expression or a relation, up to one of the words outside of parentheses and of CASE … END.

    ``comma`` ends it at a comma, too. Returns its text with its comments. Raises UnsupportedStatement for an empty one.
    """
    first = cursor.peek()
    start, cases = cursor.at, 0
    while (token := cursor.peek()) is not None:
        if not cases and (token.is_word(*stops) or (comma and (token.is_symbol(",") or token.is_symbol(")")))):
            break
        cases += token.is_word("CASE") - (token.is_word("END") if cases else False)
        cursor.skip_group()
    if first is None or cursor.at == start:
        cursor.fail_expected(what)
    text = cursor.source.script[first.start : cursor.tokens[cursor.at - 1].end]
    return text + "\n" if "--" in text else text


def relation_name(cursor: TokenStream, start: int) -> str | None:
    """The name of the relation from a token on: its alias, or the last part of a table's name."""
    tokens = cursor.tokens[start : cursor.at]
    name = _name_before_clause(TokenStream(cursor.source, tokens))
    if name is not None:
        return name
    depth, at = 0, len(tokens) - 1
    if tokens and tokens[at].is_symbol(")"):  # an alias with columns, or a query without an alias
        while at >= 0:
            depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
            at -= 1
            if depth == 0:
                break
    while at >= 0 and tokens[at].kind is Kind.HINT:
        at -= 1
    if at < 0 or tokens[at].kind not in (Kind.WORD, Kind.QUOTED):
        return None
    return part_value(tokens[at])


def _name_before_clause(cursor: TokenStream) -> str | None:
    """The last part of ``name VERSION AS OF 1`` or ``name TABLESAMPLE (…)``; None with an alias, or without both."""
    token = cursor.peek()
    if token is None or token.kind not in (Kind.WORD, Kind.QUOTED):
        return None
    name = cursor.name(most=9)
    cursor.accept_words("FOR")
    if any(cursor.accept_words(word, "AS", "OF") for word in _TRAVELS):
        cursor.skip_group()
    elif cursor.accept_words("TABLESAMPLE"):
        cursor.skip_group()
        if cursor.accept_words("REPEATABLE"):
            cursor.skip_group()
    else:
        return None
    return name.parts[-1] if cursor.peek() is None else None


def parse_tree(text: str) -> exp.Expr:
    """A query or an expression of Spark. Raises SqlglotError and RecursionError.

    Of sqlglot's dialects only that of Databricks, which contains Spark's, has the paths of a VARIANT (``v:a.b``).
    """
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except ParseError as why:
        if ":" not in text:
            raise
        try:
            return sqlglot.parse_one(text, dialect="databricks")
        except SqlglotError:
            raise why from None


def qualified(text: str, table: DmlTarget, bare: str | None) -> str:
    """An expression whose unqualified columns get the prefix ``bare`` (None: unchanged).

    It removes database and catalog from columns of the target table, because the query has only its alias. Text that
    cannot be parsed stays unchanged.
    """
    if is_default(text):
        return text
    try:
        tree = parse_tree(text)
    except (SqlglotError, RecursionError):
        return text
    edits: list[tuple[int, int, str]] = []
    name_parts = [part.lower() for part in table.name.parts]
    for column in tree.find_all(exp.Column):
        parts, start = [p.name.lower() for p in column.parts], column.parts[0].meta.get("start")
        if start is None or _is_of_lambda(column) or column.find_ancestor(exp.Select) is not None:
            continue
        front = len(name_parts) - 1
        if front and parts[: len(name_parts)] == name_parts and len(parts) > len(name_parts):
            edits.append((int(start), int(column.parts[front].meta["start"]), ""))
        elif len(parts) == 1 and bare is not None and not isinstance(column.this, exp.Star):
            edits.append((int(start), int(start), quoted_name(bare) + "."))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def names_relation(text: str, alias: str) -> bool:
    """Returns whether an expression has a column with this relation's name before it, outside of subqueries."""
    try:
        tree = parse_tree(text)
    except (SqlglotError, RecursionError):
        return False
    columns = (c for c in tree.find_all(exp.Column) if c.find_ancestor(exp.Select) is None and not _is_of_lambda(c))
    return any(len(c.parts) > 1 and c.parts[0].name.lower() == alias.lower() for c in columns)


Place = tuple[int, int, int]
"""Start and end of a word in a script, and the number of its column in the row."""


def read_defaults(cursor: TokenStream) -> tuple[Place, ...]:
    """The places of each DEFAULT in the following ``VALUES (…), (…)``."""
    places: list[Place] = []
    if not cursor.at_words("VALUES"):
        return ()
    tokens, depth, column = cursor.tokens, 0, 0
    for at in range(cursor.at, len(tokens) - 1):
        token, before, after = tokens[at], tokens[at - 1], tokens[at + 1]
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 1:
            column = 0 if token.is_symbol("(") else column + token.is_symbol(",")
        alone = any(before.is_symbol(s) for s in "(,") and any(after.is_symbol(s) for s in ",)")
        if depth == 1 and alone and token.is_word("DEFAULT"):
            places.append((token.start, token.end, column))
    return tuple(places)


def read_row_lengths(cursor: TokenStream) -> Mapping[int, int]:
    """Numbers of values in the rows of ``VALUES (…), (…)`` → the start of the first such row."""
    lengths: dict[int, int] = {}
    if not cursor.at_words("VALUES"):
        return lengths
    tokens, depth, values, start = cursor.tokens, 0, 1, 0
    for at in range(cursor.at + 1, len(tokens)):
        token = tokens[at]
        if depth == 0 and not (token.is_symbol("(") or token.is_symbol(",")):
            break
        if token.is_symbol("("):
            values, start = (1, token.start) if depth == 0 else (values, start)
            depth += 1
        elif token.is_symbol(")"):
            depth -= 1
            if depth == 0:
                lengths.setdefault(values, start)
        elif depth == 1 and token.is_symbol(","):
            values += 1
    return lengths


def with_values(source: SourceText, places: Sequence[Place], values: Sequence[str]) -> SourceText:
    """The text with the value of a column in each place, or NULL if there is none; the text ends after the places."""
    script, end = source.script, source.end
    for start, stop, column in reversed(places):
        value = (values[column] if column < len(values) else "NULL").ljust(stop - start)
        script, end = script[:start] + value + script[stop:], end + len(value) - (stop - start)
    return SourceText(script, source.start, end)


def is_default(text: str) -> bool:
    """Returns whether a value is the keyword DEFAULT."""
    return text.strip().upper() == "DEFAULT"


def _is_of_lambda(column: exp.Column) -> bool:
    scope = column.find_ancestor(exp.Lambda)
    while scope is not None:
        if column.parts[0].name.lower() in (e.name.lower() for e in scope.expressions):
            return True
        scope = scope.find_ancestor(exp.Lambda)
    return False
