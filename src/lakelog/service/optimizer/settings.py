"""What an optimizer looks after and how much it may do."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.errors import InvalidRequest
from lakelog.table.health.actions import KINDS


@dataclass(frozen=True)
class OptimizerSettings:
    """``tables`` (none: all of every catalog) and ``kinds`` of maintenance that it looks after.

    Every ``interval_s`` it looks at them; ``parallel`` runs at most are at work at once, each ends at the next safe
    point after ``run_s``; compactions read at most ``bytes_per_hour`` (None: no limit). Each process counts for itself.
    """

    tables: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    interval_s: float = 30.0
    parallel: int = 2
    bytes_per_hour: int | None = None
    run_s: float = 600.0

    def __post_init__(self) -> None:
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown:
            raise InvalidRequest(f"unknown kind of maintenance '{unknown[0]}'; known: {', '.join(KINDS)}")
        limits = (self.interval_s, self.parallel, self.run_s, self.bytes_per_hour)
        if any(limit is not None and limit <= 0 for limit in limits):
            raise InvalidRequest(
                "the interval, the runs at once, the time and the bytes of an optimizer must be above 0"
            )
