"""Changes of a text at its places: what is not named stays as the user wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """New text in place of ``[start, end)`` of the script."""

    start: int
    end: int
    text: str

    def lies_in(self, start: int, end: int) -> bool:
        """Whether it changes nothing outside of ``[start, end)``."""
        return start <= self.start and self.end <= end


def edited(script: str, edits: Iterable[Edit], start: int, end: int) -> str:
    """``script[start:end]`` with the edits that lie in it; they do not overlap."""
    out, at = [], start
    for edit in sorted((e for e in edits if e.lies_in(start, end)), key=lambda e: (e.start, e.end)):
        out += [script[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, script[at:end]])
