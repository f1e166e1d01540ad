"""How many cases the tests try that draw them: the environment variable ``LAKELOG_DEPTH`` says it.

``quick`` (the default): a fifth, for a developer who waits · ``ci``: what each change has to pass · ``night``: ten
times as many. The tests and their names are the same at every depth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

T = TypeVar("T")

SHARES: Final = {"quick": Fraction(1, 5), "ci": Fraction(1), "night": Fraction(10)}
"""Name of a depth → cases that it tries, as a share of those of ``ci``."""


@dataclass(frozen=True)
class Depth:
    """How many cases a run tries."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in SHARES:
            raise ValueError(f"LAKELOG_DEPTH = '{self.name}': give one of {', '.join(SHARES)}")

    @property
    def is_repeatable(self) -> bool:
        """Whether each run tries the same cases; at night each one draws others."""
        return self.name != "night"

    def cases(self, number: int) -> int:
        """The number of examples, seeds or schedules where ``ci`` tries ``number``; at least one."""
        return max(1, round(number * SHARES[self.name]))

    def some(self, points: Sequence[T]) -> Sequence[T]:
        """What is tried of a finite number of points: all of them from ``ci`` on, evenly chosen ones before."""
        return points if SHARES[self.name] >= 1 else points[:: round(1 / SHARES[self.name])]


DEPTH: Final = Depth(os.environ.get("LAKELOG_DEPTH", "quick"))
"""The depth of this run."""
