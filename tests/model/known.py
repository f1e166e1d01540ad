"""Faults that are known: histories steer around them, and a test asks of each whether it is still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from model.action import Action
from model.world import World

Avoids = Callable[[World, Action], bool]
KNOWN: Final[dict[str, Avoids]] = {}
"""Name of a fault → whether a step in this state would meet it."""


def known(finding: str) -> Callable[[Avoids], Avoids]:
    """Registers a known fault."""

    def register(avoids: Avoids) -> Avoids:
        KNOWN[finding] = avoids
        return avoids

    return register


def avoided(world: World, action: Action) -> bool:
    """Whether a step would meet a known fault."""
    return any(avoids(world, action) for avoids in KNOWN.values())


def _has(action: Action, name: str) -> Any:
    return getattr(action, name, None)


@known("sql.md S1-3: a default replaces NULL")
def _default(world: World, action: Action) -> bool:
    return any(column.default is not None for column in world.columns)
