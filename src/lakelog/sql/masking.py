"""Texts of statements without the secrets in them: for errors, logs and the audit log.

Every step is linear in the length of the text, whatever a user has written.
"""

from __future__ import annotations

import re
from typing import Final

from lakelog.options.catalog import CATALOG_OPTIONS
from lakelog.options.log import PROPERTIES_PREFIX, shown_value
from lakelog.options.secrets import HIDDEN, SOUNDS_SECRET, USER_IN_URL
from lakelog.options.storage import HADOOP_PREFIX, STORAGE_OPTIONS

_DECLARED: Final = {
    name
    for option in (*CATALOG_OPTIONS.options, *STORAGE_OPTIONS.options)
    if option.secret
    for name in (option.key, *option.aliases)
}
_SECRET_KEY: Final = re.compile(
    rf"(?i)(?<![\w.\-\\])(?:{re.escape(PROPERTIES_PREFIX)}|{re.escape(HADOOP_PREFIX)}"
    rf"|{'|'.join(sorted(map(re.escape, _DECLARED)))}|[\w.\-\\]*?(?:{SOUNDS_SECRET}|\\))[\w.\-\\]*+"
)
"""A word that may be the key of a secret. One with a backslash is another word for Spark, which resolves it."""
_SPACE: Final = re.compile(r"[\s\ufeff]++")
_BRACKETS: Final = re.compile(r"/\*|\*/")
_VALUES: Final = {q: re.compile(rf"(?:[^{q}\\]++|\\.|{q}{q})*+", re.DOTALL) for q in "'\""}
_QUOTES: Final = "'\"`"


def without_secrets(text: str) -> str:
    """The text with asterisks in place of values of options that may be secrets, and of passwords in URLs."""
    gaps = _Gaps(text)
    masked: list[tuple[int, int]] = []
    end = 0
    for found in _SECRET_KEY.finditer(text):
        key = found[0].partition("--")[0]
        if "\\" not in key and shown_value(key.lower(), "") != HIDDEN:
            continue
        start = gaps.value_after(found.start() + len(key))
        # within what is masked there is nothing left to mask, but for the keys that a quote of another one begins
        if start is not None and start >= end:
            value = _VALUES[text[start - 1]].match(text, start)
            end = len(text) if value is None else value.end()
            masked.append((start, end))
    parts, at = [], 0
    for start, end in masked:
        parts += [text[at:start], "*" * (end - start)]
        at = end
    return USER_IN_URL.sub(lambda user: "*" * len(user[0]), "".join([*parts, text[at:]]))


class _Gaps:
    """What may stand between a key and its value in one text: spaces, comments and ``=``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: dict[int, int] = {}
        self._comments: dict[int, int] | None = None

    def value_after(self, at: int) -> int | None:
        """Where the value begins whose key ends here: behind its quote; None when no quoted text follows."""
        text = self._text
        if text[at : at + 1] in _QUOTES and at < len(text):
            start = self._quoted(self._end(at + 1))
            return self._quoted(at) if start is None else start
        return self._quoted(self._end(at))

    def _quoted(self, at: int) -> int | None:
        if self._text[at : at + 1] in ("r", "R"):
            at += 1
        return at + 1 if self._text[at : at + 1] in _VALUES else None

    def _end(self, at: int) -> int:
        """The end of the gap that begins here. Every place is visited once, from wherever it is reached."""
        text, passed = self._text, []
        while at not in self._ends:
            passed.append(at)
            space = _SPACE.match(text, at)
            if space is not None:
                at = space.end()
            elif text.startswith("=", at):
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
