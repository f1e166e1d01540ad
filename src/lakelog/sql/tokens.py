"""Cuts SQL text into tokens with their exact places, by the lexical rules of Spark SQL.

Comments are skipped, a hint ``/*+ … */`` is one token, so is a string, so is a quoted name. Places are
offsets into the whole script, which lets a query be edited without being written anew.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from lakelog.errors import UnsupportedStatement
from lakelog.sql.script import point_at


class Kind(enum.Enum):
    """What a token is."""

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
        """Whether this is one of these keywords, in any case, not quoted."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Whether this is this punctuation character."""
        return self.kind is Kind.SYMBOL and self.text == symbol


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


def string_value(token: Token) -> str:
    """The value of a STRING token: quotes taken off, doubled quotes and Spark's backslash escapes resolved."""
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
    """A name as SQL text: plain if Spark reads it plain, else in backticks."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string as SQL text, in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _is_name_char(char: str) -> bool:
    return char.isalnum() or char in "_$"


def _quoted_end(script: str, start: int, quote: str, escapes: bool) -> int:
    """The offset behind the closing quote; a doubled quote stays inside."""
    at = start + 1
    while at < len(script):
        if escapes and script[at] == "\\":
            at += 2
        elif script[at] != quote:
            at += 1
        elif script.startswith(quote, at + 1):
            at += 2
        else:
            return at + 1
    what = "quoted name" if quote == "`" else "string"
    raise UnsupportedStatement(point_at(script, start, f"this {what} is not closed, expected {quote}"))


def _comment_end(script: str, start: int) -> int:
    """The offset behind a bracketed comment; brackets nest, as in Spark."""
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
        at = _quoted_end(script, at, script[at], script[at] != "`") if script[at] in "'\"`" else at + 1
    raise UnsupportedStatement(point_at(script, start, "this hint is not closed, expected */"))


def _number_end(script: str, start: int) -> int:
    """The offset behind a number such as ``1``, ``1.5``, ``1e-3``, ``10L``, ``1.5BD``."""
    at = start
    while at < len(script) and (script[at].isdigit() or (script[at] == "." and script[at + 1 : at + 2].isdigit())):
        at += 1
    if script[at : at + 1] in ("e", "E"):
        power = at + 2 if script[at + 1 : at + 2] in ("+", "-") else at + 1
        if script[power : power + 1].isdigit():
            at = power
    while at < len(script) and _is_name_char(script[at]):
        at += 1
    return at


def _token_at(script: str, at: int) -> Token:
    char = script[at]
    if script.startswith("/*+", at):
        kind, end = Kind.HINT, _hint_end(script, at)
    elif char in "'\"":
        kind, end = Kind.STRING, _quoted_end(script, at, char, escapes=True)
    elif char in "rR" and script[at + 1 : at + 2] in ("'", '"'):
        kind, end = Kind.STRING, script.find(script[at + 1], at + 2) + 1
        if not end:
            raise UnsupportedStatement(point_at(script, at, f"this string is not closed, expected {script[at + 1]}"))
    elif char == "`":
        kind, end = Kind.QUOTED, _quoted_end(script, at, char, escapes=False)
    elif char.isdigit():
        end = _number_end(script, at)
        plain = script[at:end].lower().replace(".", "")
        kind = Kind.NUMBER if plain.rstrip("lsydfbe+-0123456789") == "" else Kind.WORD
    elif _is_name_char(char):
        kind, end = Kind.WORD, at
        while end < len(script) and _is_name_char(script[end]):
            end += 1
    else:
        kind, end = Kind.SYMBOL, at + 1
    return Token(kind, script[at:end], at, end)


def tokenize(script: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """Yields the tokens of ``script[start:end]`` in order.

    Raises UnsupportedStatement with line and column for a string, name, comment or hint that is not closed.
    """
    at, end = start, len(script) if end is None else end
    while at < end:
        if script[at].isspace() or script[at] == "\ufeff":
            at += 1
        elif script.startswith("--", at):
            newline = script.find("\n", at)
            at = end if newline < 0 else newline + 1
        elif script.startswith("/*", at) and not script.startswith("/*+", at):
            at = _comment_end(script, at)
        else:
            token = _token_at(script, at)
            yield token
            at = token.end
