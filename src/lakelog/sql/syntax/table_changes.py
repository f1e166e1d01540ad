"""Functions in FROM that read what changed: ``table_changes('db.t', begin[, end])`` as the users of Delta write it, and
``paimon_incremental_query``, ``paimon_incremental_between_timestamp`` and ``paimon_incremental_to_auto_tag`` as those
of Apache Paimon do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from lakelog.errors import InvalidRequest, UnsupportedStatement
from lakelog.io import clock
from lakelog.options.option import Option
from lakelog.options.scan import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
)
from lakelog.sql.syntax.lexer import Kind, Token, string_value
from lakelog.sql.syntax.source_text import SourceText
from lakelog.sql.syntax.token_stream import Name, TokenStream
from lakelog.table.read.time_travel import millis_of

_DELTA: Final = "TABLE_CHANGES"
_PAIMON: Final[dict[str, Option[str]]] = {
    "PAIMON_INCREMENTAL_QUERY": INCREMENTAL_BETWEEN,
    "PAIMON_INCREMENTAL_BETWEEN_TIMESTAMP": INCREMENTAL_BETWEEN_TIMESTAMP,
    "PAIMON_INCREMENTAL_TO_AUTO_TAG": INCREMENTAL_TO_AUTO_TAG,
}
"""Functions whose ends are those of an option: the range begins after the first one."""
_CLAUSES: Final = ("SELECT", "WHERE", "GROUP", "ORDER", "HAVING", "VALUES")
_USAGE: Final = "write table_changes('db.t', 3) or ('db.t', 3, 5), or two times as text"


@dataclass(frozen=True)
class ChangesCall:
    """A call in the text: ``last`` is the index of its closing parenthesis, ``begin`` and ``end`` are its literals.

    ``name`` is the table's; its place is that of the whole call. ``option`` has the meaning of the ends, None for those
    of ``table_changes``.
    """

    name: Name
    last: int
    begin: Token
    end: Token | None
    option: Option[str] | None = None

    def options(self, source: SourceText, newest: Callable[[], int], zone: tzinfo | None) -> dict[str, str]:
        """The equivalent read options; both ends are part of the range, which without a last one ends with the newest.

        ``newest`` returns the id of the newest snapshot, 0 without one; ``zone`` is that of the session. Raises
        UnsupportedStatement for a start after it or after the end.
        """
        if self.option is not None:
            points = [point for point in (self.begin, self.end) if point is not None]
            return {self.option.key: ",".join(string_value(p) if p.kind is Kind.STRING else p.text for p in points)}
        if self.begin.kind is Kind.NUMBER:
            first = int(self.begin.text)
            known = newest()
            last = known if self.end is None else int(self.end.text)
            if self.end is not None and last > known:
                raise source.error(self.end.start, _no_snapshot(self.name, last, known))
            if self.end is not None and last < first:
                raise source.error(self.end.start, f"the range ends at {last}, before its start at {first}: swap them")
            if self.end is None and first > last + 1:
                raise source.error(self.begin.start, _no_snapshot(self.name, first, last))
            return {INCREMENTAL_BETWEEN.key: f"{max(0, first - 1)},{last}"}
        begin = _millis(source, self.begin, zone)
        end = clock.now_ms() if self.end is None else _millis(source, self.end, zone)
        if self.end is not None and end < begin:
            raise source.error(self.end.start, "the range ends before it starts: swap the two times")
        return {INCREMENTAL_BETWEEN_TIMESTAMP.key: f"{begin - 1},{max(begin, end)}"}


def _no_snapshot(name: Name, number: int, newest: int) -> str:
    return f"table '{name}' has no snapshot {number} yet; its newest one is {newest}"


def _millis(source: SourceText, point: Token, zone: tzinfo | None) -> int:
    try:
        return millis_of(string_value(point), zone)
    except InvalidRequest as why:
        raise source.error(point.start, str(why)) from None


def change_calls(source: SourceText, tokens: Sequence[Token]) -> list[ChangesCall]:
    """The calls in FROM and JOIN. Raises UnsupportedStatement for other arguments than literals."""
    positions = range(1, len(tokens) - 1)
    return [
        _read_call(source, tokens, at)
        for at in positions
        if tokens[at].is_word(_DELTA, *_PAIMON)
        and tokens[at + 1].is_symbol("(")
        and _is_relation(tokens, at)
        and at + 2 < len(tokens)
        and tokens[at + 2].kind is Kind.STRING
    ]


def _is_relation(tokens: Sequence[Token], at: int) -> bool:
    """True if a name follows FROM or JOIN, or a comma of FROM."""
    if not tokens[at - 1].is_symbol(","):
        return tokens[at - 1].is_word("FROM", "JOIN")
    depth = 0
    for token in reversed(tokens[:at]):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0 or (depth == 0 and token.is_word(*_CLAUSES)):
            return False
        if depth == 0 and token.is_word("FROM"):
            return True
    return False


def _read_call(source: SourceText, tokens: Sequence[Token], at: int) -> ChangesCall:
    cursor = TokenStream(source, tokens)
    cursor.at = at + 2
    named = cursor.take()
    points: list[Token] = []
    while cursor.accept_symbol(","):
        point = cursor.take()
        if point.kind not in (Kind.NUMBER, Kind.STRING) or (point.kind is Kind.NUMBER and not point.text.isdecimal()):
            cursor.fail(f"'{point.text}' is neither a snapshot nor a time: {_USAGE}", point)
        points.append(point)
    option = _PAIMON.get(tokens[at].text.upper())
    ends = ("tag",) if option is INCREMENTAL_TO_AUTO_TAG else ("begin", "end")
    if option is not None and (not cursor.at_symbol(")") or len(points) != len(ends)):
        cursor.fail(f"write {tokens[at].text}('db.t', {', '.join(ends)})")
    if not cursor.at_symbol(")") or not 1 <= len(points) <= 2:
        cursor.fail(_USAGE)
    if len({point.kind for point in points}) > 1:
        cursor.fail(f"both ends must be of the same kind: {_USAGE}", points[1])
    text = string_value(named)
    try:
        inner = TokenStream.over(text)
        parts = inner.name().parts
        inner.expect_end()
    except UnsupportedStatement:
        cursor.fail(f"'{text}' is not a table name", named)
    name = Name(parts, tokens[at].start, tokens[cursor.at].end)
    return ChangesCall(name, cursor.at, points[0], points[1] if len(points) > 1 else None, option)


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
    """The clause that begins at this position.

    A version is a snapshot id or a tag, a time is seconds since 1970, text in the zone of the session (or with an
    offset), or a function or an expression in parentheses, with intervals or none: ``millis_of`` computes it. Raises
    UnsupportedStatement for another value.
    """
    rest = [t for t in tokens if t.start >= start]
    at = 1 if rest[0].is_word("FOR") else 0
    is_version = rest[at].is_word("VERSION", "SYSTEM_VERSION")
    at += 3  # behind AS OF
    if not is_version and at + 1 < len(rest) and rest[at].is_word("TIMESTAMP", "DATE"):
        at += rest[at + 1].kind is Kind.STRING
    if not is_version and at < len(rest) and rest[at].kind is Kind.NUMBER and rest[at].text.isdecimal():
        return TimeTravel(start, rest[at].end, {SCAN_TIMESTAMP_MILLIS.key: str(int(rest[at].text) * 1000)})
    if not is_version and (end := _end_of_expression(rest, at)):
        text = source.script[rest[at].start : rest[end - 1].end]
        return TimeTravel(start, rest[end - 1].end, {SCAN_TIMESTAMP_MILLIS.key: str(millis_of(text))})
    value = rest[at] if at < len(rest) else None
    if value is None or value.kind not in ((Kind.STRING, Kind.NUMBER) if is_version else (Kind.STRING,)):
        example = "VERSION AS OF 3 or VERSION AS OF 'tag'" if is_version else "TIMESTAMP AS OF '2024-01-31 12:00:00'"
        position = start if value is None else value.start
        raise source.error(position, f"time travel needs a plain value here, as in {example}")
    text = string_value(value) if value.kind is Kind.STRING else value.text
    return TimeTravel(start, value.end, {(SCAN_VERSION if is_version else SCAN_TIMESTAMP).key: text})


def _end_of_expression(tokens: Sequence[Token], at: int) -> int:
    """The index after ``function(…)`` or ``(…)`` and any ``± INTERVAL …``; 0 if there is no such expression."""
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
