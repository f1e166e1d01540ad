"""Reads ``VERSION AS OF …`` and ``TIMESTAMP AS OF …`` behind a table's name as read options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakelog.options.scan import SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS, SCAN_VERSION
from lakelog.sql.syntax.lexer import Kind, Token, string_value
from lakelog.sql.syntax.source_text import SourceText

_UNITS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True)
class TimeTravel:
    """A clause ``[start, end)`` of the script and the option that means the same."""

    start: int
    end: int
    options: dict[str, str]


def read_time_travel(
    source: SourceText, tokens: Sequence[Token], start: int, millis_of: Callable[[str], int]
) -> TimeTravel:
    """The clause that begins at this place.

    A version is a snapshot id or a tag, a time is text in the zone of this machine (or with an offset), or a function
    or an expression in parentheses, with intervals or none: ``millis_of`` computes it. Raises UnsupportedStatement for
    another value.
    """
    rest = [t for t in tokens if t.start >= start]
    at = 1 if rest[0].is_word("FOR") else 0
    is_version = rest[at].is_word("VERSION", "SYSTEM_VERSION")
    at += 3  # behind AS OF
    if not is_version and at + 1 < len(rest) and rest[at].is_word("TIMESTAMP", "DATE"):
        at += rest[at + 1].kind is Kind.STRING
    if not is_version and (end := _end_of_expression(rest, at)):
        text = source.script[rest[at].start : rest[end - 1].end]
        return TimeTravel(start, rest[end - 1].end, {SCAN_TIMESTAMP_MILLIS.key: str(millis_of(text))})
    value = rest[at] if at < len(rest) else None
    if value is None or value.kind not in ((Kind.STRING, Kind.NUMBER) if is_version else (Kind.STRING,)):
        example = "VERSION AS OF 3 or VERSION AS OF 'tag'" if is_version else "TIMESTAMP AS OF '2024-01-31 12:00:00'"
        place = start if value is None else value.start
        raise source.error(place, f"time travel needs a plain value here, as in {example}")
    text = string_value(value) if value.kind is Kind.STRING else value.text
    return TimeTravel(start, value.end, {(SCAN_VERSION if is_version else SCAN_TIMESTAMP).key: text})


def _end_of_expression(tokens: Sequence[Token], at: int) -> int:
    """The index behind ``function(…)`` or ``(…)``, with ``± INTERVAL …`` behind it; 0 when none is there."""
    called = at + 1 < len(tokens) and tokens[at].kind is Kind.WORD and tokens[at + 1].is_symbol("(")
    if at >= len(tokens) or not (called or tokens[at].is_symbol("(")):
        return 0
    depth = 0
    for end in range(at + called, len(tokens)):
        depth += tokens[end].is_symbol("(") - tokens[end].is_symbol(")")
        if depth == 0:
            break
    end += 1
    while end + 2 < len(tokens) and tokens[end + 1].is_word("INTERVAL"):
        has_unit = end + 3 < len(tokens) and tokens[end + 3].is_word(*_UNITS, *(f"{unit}S" for unit in _UNITS))
        end += 4 if has_unit else 3
    return end
