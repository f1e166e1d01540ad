"""How much a run tries of what can be drawn, and the seed that draws it.

``LAKELOG_DEPTH`` says how many examples, schedules, seeds and crash points a test tries: ``quick`` (the default) for a
developer who waits · ``ci`` what fits the budget of a landing · ``full`` everything once · ``night`` ten times as much.
``LAKELOG_SEED`` says which ones; without it the seed comes from the id of the commit, so that successive landings try
others, and a landing that is repeated tries the same. A case that fails is found again with the seed that the run
printed; it then becomes a fixed example.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

SHARES: Final = {"quick": Fraction(1, 10), "ci": Fraction(1, 5), "full": Fraction(1), "night": Fraction(10)}
"""Name of a depth → cases that it tries, as a share of those of ``full``."""


def commit_seed() -> int:
    """The seed of the commit that is checked out; 0 outside of a checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


@dataclass(frozen=True)
class Depth:
    """How many cases a run tries, and from which seed it draws them."""

    name: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.name not in SHARES:
            raise ValueError(f"LAKELOG_DEPTH = '{self.name}': give one of {', '.join(SHARES)}")

    @property
    def is_whole(self) -> bool:
        """Whether it tries all that ``full`` does."""
        return SHARES[self.name] >= 1

    @property
    def is_exhaustive(self) -> bool:
        """Whether it tries what even ``full`` only samples."""
        return self.name == "night"

    def cases(self, number: int) -> int:
        """The number of examples or schedules where ``full`` tries ``number``; at least one."""
        return max(1, round(number * SHARES[self.name]))

    def seeds(self, number: int, first: int = 0, space: int = 10_000) -> range:
        """As many seeds as ``cases`` says, drawn from ``space`` of them beginning with ``first``."""
        cases = self.cases(number)
        return range(start := first + self.seed % max(1, space - cases), start + cases)

    def some(self, points: Sequence[T]) -> Sequence[T]:
        """What is tried of a finite number of points: all from ``full`` on, before each n-th; the seed says which."""
        step = max(1, round(1 / SHARES[self.name]))
        return points[self.seed % min(step, len(points)) :: step] if points else points

    def keeps(self, name: str, number: int, count: int, share: Fraction) -> bool:
        """Whether case ``number`` of ``count`` of a test is among the ``share`` of them that a run tries."""
        if share >= 1:
            return True
        drawn = zlib.crc32(f"{self.seed} {name}".encode())
        kept = int(count * share) + (drawn % 1_000 < (count * share) % 1 * 1_000)
        return (number + drawn) * kept % count < kept

    def __str__(self) -> str:
        return f"LAKELOG_DEPTH={self.name} LAKELOG_SEED={self.seed}"


DEPTH: Final = Depth(os.environ.get("LAKELOG_DEPTH", "quick"), int(os.environ.get("LAKELOG_SEED") or commit_seed()))
"""The depth and the seed of this run."""
