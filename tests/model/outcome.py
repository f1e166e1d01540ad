"""The outcome of one history of many, which a process of its own draws."""

from __future__ import annotations

import time
from dataclasses import dataclass

from model.history import Failure, Given, drawn
from model.shrinking import shrunk


@dataclass(frozen=True)
class Outcome:
    """The outcome of one seed: its number of steps, and what went wrong."""

    seed: int
    steps: int
    cpu_s: float
    words: str = ""
    text: str = ""


def run(seed: int, steps: int, log: str | None, given: Given, seconds: float) -> Outcome:
    """Draws and runs a history; shrinks it if it goes wrong."""
    begun = time.process_time()
    found = drawn(seed, steps, log, given)
    cpu = time.process_time() - begun
    if not isinstance(found, Failure):
        return Outcome(seed, len(found.done), cpu)
    number = len(found.history.steps)
    least = shrunk(found, seconds)
    head = f"seed {seed}: {least.kind} after {number} steps ({len(least.history.steps)} are enough)"
    return Outcome(seed, number, cpu, head, least.script)
