"""What a look at the server of a log tells: who it is, its limits, and what could be better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LogProblem:
    """Something about the server that may go wrong one day, and what to do."""

    found: str
    what_to_do: str


@dataclass(frozen=True)
class LogServer:
    """A server that answers. ``facts`` are for people: what, value with its unit."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[LogProblem, ...] = ()
