"""Prints the releases of PySpark that a landing tests besides the newest: the oldest, and one that the seed draws."""

from __future__ import annotations

import sys

from depth import DEPTH


def drawn(releases: list[str], seed: int) -> list[str]:
    """Two of the releases, the first of which is always among them."""
    oldest, *others = releases
    return [oldest, others[seed % len(others)]]


if __name__ == "__main__":
    sys.stdout.write(" ".join(drawn(sys.argv[1:], DEPTH.seed)) + "\n")
