"""Parser of the condition of a lookup join: lookup keys of the table, and further conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.token_stream import part_value


@dataclass(frozen=True)
class Span:
    """A piece ``[start, end)`` of the script."""

    start: int
    end: int


@dataclass(frozen=True)
class LookupCondition:
    """``keys``: a column of the primary key and the expression that it equals; ``rest``: the other conditions."""

    keys: tuple[tuple[str, Span], ...]
    rest: tuple[Span, ...]


def read_condition(tokens: Sequence[Token], alias: str, schema: TableSchema) -> LookupCondition:
    """The condition after ON; ``alias`` is the name of the table with the primary key in ``schema``."""
    keys: dict[str, Span] = {}
    rest = []
    for part in _conjuncts(tokens):
        key = _key_of(part, alias, schema)
        if key is None or key[0] in keys:
            rest.append(Span(part[0].start, part[-1].end))
        else:
            keys[key[0]] = key[1]
    return LookupCondition(tuple(keys.items()), tuple(rest))


def _conjuncts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts between the ANDs; the whole condition if it has an OR outside of parentheses."""
    inner = _unwrapped(tokens)
    parts: list[list[Token]] = [[]]
    depth, betweens, has_or = 0, 0, False
    for token in inner:
        depth += token.is_symbol("(") - token.is_symbol(")")
        depth += token.is_word("CASE") - token.is_word("END")
        betweens += depth == 0 and token.is_word("BETWEEN")
        has_or |= depth == 0 and token.is_word("OR")
        if depth == 0 and token.is_word("AND"):
            if not betweens:
                parts.append([])
                continue
            betweens -= 1
        parts[-1].append(token)
    if has_or or not all(parts):
        return [tokens]
    if len(parts) == 1:
        return [inner]
    return [piece for part in parts for piece in _conjuncts(part)]


def _unwrapped(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens without enclosing parentheses."""
    while len(tokens) > 2 and tokens[0].is_symbol("("):
        depths = list(accumulate(token.is_symbol("(") - token.is_symbol(")") for token in tokens))
        if 0 in depths[:-1]:
            return tokens
        tokens = tokens[1:-1]
    return tokens


def _key_of(tokens: Sequence[Token], alias: str, schema: TableSchema) -> tuple[str, Span] | None:
    """The column of the primary key and the other side, if the condition is an equality of the two."""
    equality = _equals(tokens)
    if equality is None:
        return None
    left, right = tokens[: equality[0]], tokens[equality[1] :]
    for one, other in ((left, right), (right, left)):
        column = _column(one, alias, schema)
        if column in schema.primary_keys and not _names(other, alias, schema):
            return str(column), Span(other[0].start, other[-1].end)
    return None


def _equals(tokens: Sequence[Token]) -> tuple[int, int] | None:
    """The end and the start of the sides of ``=`` or ``==``; None if the condition is not an equality."""
    depth, sign = 0, None
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth or token.kind is not Kind.SYMBOL:
            if not depth and token.is_word("NOT", "BETWEEN", "IN", "LIKE", "IS"):
                return None
            continue
        if token.text in "<>!":
            return None
        if token.is_symbol("=") and sign is None:
            twice = at + 1 < len(tokens) and tokens[at + 1].is_symbol("=") and tokens[at + 1].start == token.end
            sign = (at, at + 1 + twice)
    if sign is None or not sign[0] or sign[1] >= len(tokens):
        return None
    return sign


def _column(tokens: Sequence[Token], alias: str, schema: TableSchema) -> str | None:
    """The table's column of a name, in the table's spelling."""
    named = [token for token in tokens if token.kind in (Kind.WORD, Kind.QUOTED)]
    if len(tokens) != 2 * len(named) - 1 or not all(token.is_symbol(".") for token in tokens[1::2]):
        return None
    parts = [part_value(token).lower() for token in named]
    if len(parts) > 1 and parts[-2] != alias.lower():
        return None
    return next((name for name in schema.field_names if name.lower() == parts[-1]), None)


def _names(tokens: Sequence[Token], alias: str, schema: TableSchema) -> bool:
    """Returns whether an expression also refers to the table."""
    if _column(tokens, alias, schema) is not None:
        return True
    return any(
        token.kind in (Kind.WORD, Kind.QUOTED) and part_value(token).lower() == alias.lower() and dot.is_symbol(".")
        for token, dot in zip(tokens, tokens[1:], strict=False)
    )
