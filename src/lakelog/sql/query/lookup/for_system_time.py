"""Reads ``FOR SYSTEM_TIME AS OF <processing time>`` behind the name of a table: a join with its rows of that moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.text_edits import Edit
from lakelog.sql.syntax.token_stream import part_value

PROCTIME: Final = "PROCTIME"
"""Flink's function for the time at which a row is read, which Spark calls current_timestamp()."""
_NOW: Final = (PROCTIME, "CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP")


@dataclass(frozen=True)
class LookupTime:
    """A clause ``[start, end)`` of the script; ``column`` are the parts of a column's name, if it has one."""

    start: int
    end: int
    column: tuple[str, ...] = ()


def read_lookup_time(source: SourceText, tokens: Sequence[Token], start: int) -> LookupTime | None:
    """The clause that begins at this place; None when it is time travel, to a plain value.

    Raises UnsupportedStatement for another function or an expression.
    """
    rest = [t for t in tokens if t.start >= start]
    at = 1 if rest[0].is_word("FOR") else 0
    if not rest[at].is_word("SYSTEM_TIME") or len(rest) < at + 4:
        return None
    at += 3  # behind AS OF
    first = rest[at]
    if first.kind not in (Kind.WORD, Kind.QUOTED) or (
        first.is_word("TIMESTAMP", "DATE") and len(rest) > at + 1 and rest[at + 1].kind is Kind.STRING
    ):
        return None
    parts, last = [part_value(first)], at
    while last + 2 < len(rest) and rest[last + 1].is_symbol("."):
        parts, last = [*parts, part_value(rest[last + 2])], last + 2
    if last + 1 < len(rest) and rest[last + 1].is_symbol("("):
        if not first.is_word(*_NOW) or last > at or last + 2 >= len(rest) or not rest[last + 2].is_symbol(")"):
            raise source.error(
                first.start,
                "expected the time at which a row is read here, PROCTIME() or current_timestamp(), or a column that is "
                "one of these",
            )
        return LookupTime(start, rest[last + 2].end)
    if last == at and first.is_word("CURRENT_TIMESTAMP", "LOCALTIMESTAMP"):
        return LookupTime(start, first.end)
    return LookupTime(start, rest[last].end, tuple(parts))


def is_now(name: str) -> bool:
    """Whether this is the name of a function for the time at which a row is read."""
    return name.upper() in _NOW


def proctime_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Writes ``PROCTIME()`` as Spark does."""
    return [
        Edit(token.start, token.end, "current_timestamp")
        for token, behind in zip(tokens, tokens[1:], strict=False)
        if token.is_word(PROCTIME) and behind.is_symbol("(")
    ]
