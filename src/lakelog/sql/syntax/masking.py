"""Texts of statements without the secrets in them: for errors, logs and the audit log.

Every step is linear in the length of the text, whatever a user has written.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Final

from lakelog.options.catalog import CATALOG_OPTIONS
from lakelog.options.compatibility import KEY_PREFIXES, PROPERTIES_PREFIX
from lakelog.options.log import shown_value
from lakelog.options.secrets import HIDDEN, looks_secret, masked_urls
from lakelog.options.storage import HADOOP_PREFIX, STORAGE_OPTIONS

_DECLARED: Final = {
    name
    for option in (*CATALOG_OPTIONS.options, *STORAGE_OPTIONS.options)
    if option.secret
    for name in (option.key, *option.aliases)
}
_STEM: Final = re.compile(
    "|".join(
        [rf"\b{re.escape(prefix)}" for prefix in (PROPERTIES_PREFIX, HADOOP_PREFIX, *KEY_PREFIXES)]
        + ["secret", "pass", "pwd", "token", "credential", "key", "auth", "jaas", "bearer", "cookie", "sig", "sas"]
        + ["connection"]
        + sorted(re.escape(name) for name in _DECLARED if not looks_secret(name))
    )
)
"""What every key of a secret has in it, in small letters."""
_WORD: Final = re.compile(r"[\w.\-\\]*+")
_BEFORE_QUOTE: Final = re.compile(r"(?<![\w.\-\\])[\w.\-\\]{4,}+(?=['\"`])")
_FOLLOWS: Final = frozenset("='\"`-/rR:,(|+$")
_GAP, _GAP_IN_MAP, _JOIN = "=>:(", "=>:(,", "|+"
"""Signs between a key and its value, however it was meant, also in ``map('k', 'v')``, and between parts of a value."""
_MAP: Final = re.compile(r"(?:map|struct)\s*+\(", re.IGNORECASE)
_LITERAL: Final = re.compile(r"(?:[rRnNbBxXeE]|[uU]&)?(?=['\"])|(?=\$\w{0,60}+\$)")
"""The prefix of a literal; ``$$…$$`` is one, too."""
_TAG: Final = re.compile(r"\$\w{0,60}+\$")
_ASCII_LOWER: Final = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_SPACE: Final = re.compile(r"[\s\ufeff]++")
_BRACKETS: Final = re.compile(r"/\*|\*/")
_VALUES: Final = {q: re.compile(rf"(?:[^{q}\\]++|\\.|{q}{q})*+", re.DOTALL) for q in "'\""}
_QUOTES: Final = "'\"`"
_SET: Final = re.compile(r"(\bset\s++`?([\w.\-]{1,200}+)`?\s*+=\s*+)([^\s'\"`;][^;\n]*+)", re.IGNORECASE)
"""``SET key = value`` without quotes: the value ends with the line or the statement."""


def without_secrets(text: str) -> str:
    """The text with asterisks in place of values of options that may be secrets, and of passwords in URLs."""
    parts, end = list[str](), 0
    gaps, gaps_in_map, joins = (_Gaps(text, signs) for signs in (_GAP, _GAP_IN_MAP, _JOIN))
    first_map = _MAP.search(text)
    for begins, ends in _secret_keys(text):
        is_in_map = first_map is not None and first_map.end() <= begins
        start = (gaps_in_map if is_in_map else gaps).value_after(ends, text[begins - 1 : begins])
        # what is masked has nothing left to mask
        while start is not None and start >= end:
            stop, behind = _literal_end(text, start)
            parts += [text[end:start], "*" * (stop - start)]
            end = stop
            start = joins.literal_at(behind)
    out = "".join([*parts, text[end:]]) if parts else text
    out = _SET.sub(lambda match: match[1] + "*" * len(match[3]) if _is_secret(match[2].lower()) else match[0], out)
    return masked_urls(out)


def _literal_end(text: str, start: int) -> tuple[int, int]:
    """The end of what a literal holds, and the position after the literal."""
    quote = text[start - 1]
    if quote == "$":
        tag = text[text.rindex("$", 0, start - 1) : start]
        stop = text.find(tag, start)
        return (len(text), len(text)) if stop < 0 else (stop, stop + len(tag))
    value = _VALUES[quote].match(text, start)
    stop = len(text) if value is None else value.end()
    return stop, stop + 1


def _secret_keys(text: str) -> list[tuple[int, int]]:
    """The start and end of each word that may be the key of a secret, in order."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters of Unicode become two
        lowered = text.translate(_ASCII_LOWER)
    # Spark resolves a backslash: the key is another word than it looks
    odd = _BEFORE_QUOTE.finditer(text) if "\\" in text else ()
    starts = {word.end(): word.start() for word in odd if "\\" in word[0]}
    end = 0
    for stem in _STEM.finditer(lowered):
        if stem.end() <= end:
            continue
        start, floor, end = stem.start(), end, _WORD.match(text, stem.end()).end()  # type: ignore[union-attr]
        if not (text[end : end + 1].isspace() or text[end : end + 1] in _FOLLOWS or "--" in text[start:end]):
            continue
        while start > floor and _WORD.match(text[start - 1])[0]:  # type: ignore[index]
            start -= 1
        key = lowered[start:end].partition("--")[0]
        if _is_secret(key):
            starts[start + len(key)] = start
    return [(start, end) for end, start in sorted(starts.items())]


@lru_cache(4096)
def _is_secret(key: str) -> bool:
    return shown_value(key, "") == HIDDEN


class _Gaps:
    """The characters between keys and values, or parts of a value, in one text: spaces, comments and ``signs``."""

    def __init__(self, text: str, signs: str) -> None:
        self._text, self._signs = text, signs
        self._ends: dict[int, int] = {}
        self._comments: dict[int, int] | None = None

    def value_after(self, at: int, opened: str) -> int | None:
        """The start of the value whose key ends at ``at``: after its quote; None if no quoted text follows.

        ``opened`` is the character before the key; the same quote after the key closes it.
        """
        text = self._text
        if text[at : at + 1] in _QUOTES and at < len(text):
            start = self._quoted(self._end(at + 1))
            return self._quoted(at) if start is None and text[at] != opened else start
        return self.literal_at(at)

    def literal_at(self, at: int) -> int | None:
        """The start of what a literal holds that follows here; None if none does."""
        return self._quoted(self._end(at)) if at < len(self._text) else None

    def _quoted(self, at: int) -> int | None:
        match = _LITERAL.match(self._text, at)
        if match is None:
            return None
        tag = _TAG.match(self._text, at)
        return match.end() + 1 if tag is None else tag.end()

    def _end(self, at: int) -> int:
        """The end of the gap that begins here. Every place is visited once, from wherever it is reached."""
        text = self._text
        if text[at : at + 1].isalnum():
            return at
        passed = []
        while at not in self._ends:
            passed.append(at)
            space = _SPACE.match(text, at)
            if space is not None:
                at = space.end()
            elif text[at : at + 1] in self._signs and at < len(text):
                at += 1
            elif text.startswith("--", at):
                newline = text.find("\n", at)
                at = len(text) if newline < 0 else newline + 1
            elif text.startswith("/*", at):
                at = self._comment_end(at)
            else:
                break
        end = self._ends.get(at, at)
        self._ends.update(dict.fromkeys(passed, end))
        return end

    def _comment_end(self, at: int) -> int:
        """The end of a bracketed comment. Comments nest; one that is not closed so ends at the next bracket."""
        if self._comments is None:
            self._comments = {}
            opened: list[int] = []
            unclosed: list[int] = []
            for bracket in _BRACKETS.finditer(self._text):
                if bracket[0] == "/*":
                    opened.append(bracket.start())
                elif opened:
                    self._comments[opened.pop()] = bracket.end()
            closes = [end.end() for end in _BRACKETS.finditer(self._text) if end[0] == "*/"]
            unclosed = opened[::-1]
            for start in unclosed:
                while len(closes) > 1 and closes[-2] > start + 2:
                    closes.pop()
                self._comments[start] = closes[-1] if closes and closes[-1] > start + 2 else len(self._text)
        return self._comments.get(at, at + 2)
