"""Commits that begin again, because another commit has come first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from lakelog.errors import CommitConflict
from lakelog.io.clock import pause

T = TypeVar("T")
_ROUNDS: Final = 10


class LostRace(Exception):
    """Another commit has changed what this one is made from. The text says what; the caller makes it again.

    ``CommitRequest.prepare`` raises it, and what the commit has made is deleted. Users never see it.
    """


def until_won(table: str, attempt: Callable[[], T], rounds: int = _ROUNDS) -> T:
    """The result of ``attempt``, which is called again if it loses a race. Raises CommitConflict after ``rounds``."""
    for number in range(rounds):
        try:
            return attempt()
        except LostRace as why:
            reason = str(why)
        pause_after_loss(number)
    raise CommitConflict(f"table {table}: {reason} each time. Try again")


def pause_after_loss(number: int) -> None:
    """Waits a short random time before the retry of a lost race, longer each time."""
    pause(number, first_s=0.001, longest_s=0.1)
