"""One statement inside the text that the user gave, and errors that point into that text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakelog.errors import UnsupportedStatement
from lakelog.sql.syntax.masking import without_secrets

_BLANKED: Final = re.compile(r"[^\t]")


def point_at(script: str, offset: int, message: str) -> str:
    """Builds an error text: message with line and column, the line itself and a caret under the offset.

    Lines and columns count from 1; the column counts characters. Wide characters (Chinese) take two
    cells in a terminal, so the caret moves by cells. Values of options that may be secrets are shown as asterisks.
    """
    offset = min(offset, len(script))
    line_start = script.rfind("\n", 0, offset) + 1
    line_end = script.find("\n", offset)
    line = script[line_start : len(script) if line_end < 0 else line_end].rstrip("\r")
    before = script[line_start:offset]
    pad = _BLANKED.sub(" ", before) if before.isascii() else "".join(map(_pad, before))
    number = script.count("\n", 0, offset) + 1
    return f"line {number}, column {len(before) + 1}: {message}\n{without_secrets(line)}\n{pad}^"


def _pad(char: str) -> str:
    return "\t" if char == "\t" else "  " if unicodedata.east_asian_width(char) in "WF" else " "


@dataclass(frozen=True)
class SourceText:
    """The part [start, end) of a script that holds one statement, without its semicolon."""

    script: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The statement as the user wrote it, comments inside it included."""
        return self.script[self.start : self.end]

    def error(self, offset: int, message: str) -> UnsupportedStatement:
        """An error to raise that points at an offset of the whole script."""
        return UnsupportedStatement(point_at(self.script, offset, message))


@dataclass(frozen=True)
class Edit:
    """New text in place of ``[start, end)`` of the script."""

    start: int
    end: int
    text: str

    def is_within(self, start: int, end: int) -> bool:
        """True if it changes only text inside of ``[start, end)``."""
        return start <= self.start and self.end <= end


def edited(script: str, edits: Iterable[Edit], start: int, end: int) -> str:
    """``script[start:end]`` with its edits, which do not overlap."""
    out, at = [], start
    for edit in sorted((e for e in edits if e.is_within(start, end)), key=lambda e: (e.start, e.end)):
        out += [script[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, script[at:end]])
