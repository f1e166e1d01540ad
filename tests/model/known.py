"""Faults that are known: histories steer around them, and a test asks of each whether it is still there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from model.action import Action
from model.tables import Table
from model.world import World


@dataclass(frozen=True)
class Known:
    """A fault: whether a step in this state would meet it, and a table and steps that show it."""

    avoids: Callable[[World, Action], bool]
    table: Table
    steps: tuple[Action, ...]


KNOWN: Final[dict[str, Known]] = {}
"""Name of a fault → what it is. An entry that no longer fails has to go."""


def avoided(world: World, action: Action, meets: frozenset[str] = frozenset()) -> bool:
    """Whether a step would meet a known fault that is not one of ``meets``."""
    inner = [getattr(action, "action", action), getattr(action, "other", action)]
    return any(known.avoids(world, one) for name, known in KNOWN.items() if name not in meets for one in inner)
