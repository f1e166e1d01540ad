"""Splits SQL text into tokens with their exact positions, by the lexical rules of Spark SQL.

Comments are skipped. A hint ``/*+ … */``, a string and a quoted name are one token each. Positions are offsets into the
whole script, so that a query can be edited in place.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakelog.errors import UnsupportedStatement
from lakelog.sql.syntax.source_text import point_at


class Kind(enum.Enum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    HINT = "hint"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Token:
    """A piece of the script: its text is ``script[start:end]``."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Returns whether this is one of these keywords, case-insensitive, not quoted."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Returns whether this is this punctuation character."""
        return self.kind is Kind.SYMBOL and self.text == symbol


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


def string_value(token: Token) -> str:
    """The value of a STRING token, without quotes, with doubled quotes and Spark's backslash escapes resolved."""
    text = token.text
    if text[0] in "rR":
        return text[2:-1]
    quote, out, at = text[0], [], 1
    while at < len(text) - 1:
        char = text[at]
        if char == "\\" and at + 2 < len(text):
            at += 1
            out.append("\\" + text[at] if text[at] in "%_" else _ESCAPES.get(text[at], text[at]))
        else:
            out.append(char)
            if char == quote:
                at += 1
        at += 1
    return "".join(out)


def quoted_name(name: str) -> str:
    """A name as SQL text: plain if Spark accepts that, else in backticks."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string as SQL text, in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


# A doubled quote stays inside. The repetitions are possessive: what is not closed does not match in part.
_TEXTS = {q: re.compile(rf"{q}(?:[^{q}\\]++|\\.|{q}{q})*+{q}", re.DOTALL) for q in "'\""}
_RAW_TEXT = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""")
_QUOTED = re.compile(r"`(?:[^`]++|``)*+`")
_NAME = re.compile(r"[\w$]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)*(?:[eE][+-]?\d+)?[\w$]*")
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)*(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?")
_SPACE = re.compile(r"[\s\ufeff]+")


def _end_of(pattern: re.Pattern[str], script: str, start: int, what: str) -> int:
    match = pattern.match(script, start)
    if match is None:
        closing = script[start] if script[start] not in "rR" else script[start + 1]
        raise UnsupportedStatement(point_at(script, start, f"this {what} is not closed, expected {closing}"))
    return match.end()


def _comment_end(script: str, start: int) -> int:
    """The offset after a bracketed comment; brackets nest, as in Spark."""
    at, depth = start + 2, 1
    while depth:
        close, again = script.find("*/", at), script.find("/*", at)
        if close < 0:
            raise UnsupportedStatement(point_at(script, start, "this comment is not closed, expected */"))
        if 0 <= again < close:
            at, depth = again + 2, depth + 1
        else:
            at, depth = close + 2, depth - 1
    return at


def _hint_end(script: str, start: int) -> int:
    at = start + 3
    while at < len(script):
        if script.startswith("*/", at):
            return at + 2
        char = script[at]
        if char in _TEXTS:
            at = _end_of(_TEXTS[char], script, at, "string")
        else:
            at = _end_of(_QUOTED, script, at, "quoted name") if char == "`" else at + 1
    raise UnsupportedStatement(point_at(script, start, "this hint is not closed, expected */"))


def _token_at(script: str, at: int) -> Token:
    char = script[at]
    kind, end = Kind.SYMBOL, at + 1
    if script.startswith("/*+", at):
        kind, end = Kind.HINT, _hint_end(script, at)
    elif char in _TEXTS:
        kind, end = Kind.STRING, _end_of(_TEXTS[char], script, at, "string")
    elif char in "rR" and script[at + 1 : at + 2] in ("'", '"'):
        kind, end = Kind.STRING, _end_of(_RAW_TEXT, script, at, "string")
    elif char == "`":
        kind, end = Kind.QUOTED, _end_of(_QUOTED, script, at, "quoted name")
    elif (number := _NUMBER.match(script, at)) is not None:
        kind, end = Kind.NUMBER if _PLAIN_NUMBER.fullmatch(number[0]) else Kind.WORD, number.end()
    elif (name := _NAME.match(script, at)) is not None:
        kind, end = Kind.WORD, name.end()
    return Token(kind, script[at:end], at, end)


def tokenize(script: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yields the tokens of ``script[start:end]`` in order.

    Raises UnsupportedStatement with line and column for an unclosed string, name, comment or hint.
    """
    at, end = start, len(script) if end is None else end
    while at < end:
        space = _SPACE.match(script, at, end)
        if space is not None:
            at = space.end()
        elif script.startswith("--", at):
            newline = script.find("\n", at)
            at = end if newline < 0 else newline + 1
        elif script.startswith("/*", at) and not script.startswith("/*+", at):
            at = _comment_end(script, at)
        else:
            token = _token_at(script, at)
            yield token
            at = token.end
