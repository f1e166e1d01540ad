"""What is killed, and when: a plan that follows from its seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

VICTIMS: Final = {
    "driver": "the writing job's driver; executors that are still at work notice later",
    "job": "the writing job with all its executors",
    "executor": "one executor",
    "task": "the Python worker of a task",
    "broker": "the log's server, which comes back on the same port and directory",
    "copier": "the job that copies the log",
}


_AMID_ROWS = 0.75
"""So many of the kills wait for rows."""


@dataclass(frozen=True)
class Kill:
    """When ``at_s`` seconds of work are done; ``pick`` of 0 … 1 chooses among several; a server is away for ``away_s``.
    ``amid_rows`` waits until rows of a micro-batch arrive in the log: most of its time a job only gets ready for that.
    """

    at_s: float
    victim: str
    pick: float
    away_s: float
    amid_rows: bool


def plan_kills(seed: int, every_s: float, victims: list[str]) -> Iterator[Kill]:
    """For ever: kills each victim once in each ``every_s`` seconds of work, at a random time, in any order.

    Seconds of work are those in which the writing job has begun with its tasks: on a busy machine a job takes its time
    to start, and kills by the clock would meet nothing but starts.
    """
    chance = random.Random(seed)
    for start in itertools.count():
        kills = [
            Kill(
                at_s=(start + chance.random()) * every_s,
                victim=victim,
                pick=chance.random(),
                away_s=2 * chance.random(),
                amid_rows=chance.random() < _AMID_ROWS and victim != "copier",
            )
            for victim in victims
        ]
        yield from sorted(kills, key=lambda kill: kill.at_s)
