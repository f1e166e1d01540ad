"""Faults that are known: histories steer around them, and a test asks of each whether it is still there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakelog.options.log import CHANGES, LOG_CONTENT, LOG_ENABLED
from model.action import Action
from model.actions.changes import Merge
from model.actions.maintenance import Maintain
from model.tables import Column, Table, is_log_of_changes
from model.world import World


@dataclass(frozen=True)
class Known:
    """A fault: whether a step in this state would meet it, and a table and steps that show it."""

    avoids: Callable[[World, Action], bool]
    table: Table
    steps: tuple[Action, ...]


_ID, _TEXT = Column("c0", "id", "int", is_nullable=False), Column("c1", "v", "string")
_NESTED = Column("c1", "v", "struct<a: int, b: string>")

KNOWN: Final[dict[str, Known]] = {
    "replay of rejected rows is refused if the log follows the files": Known(
        lambda world, action: (
            isinstance(action, Maintain) and "replay" in action.way and is_log_of_changes(world.options)
        ),
        Table((_ID, _TEXT), ("id",), options={LOG_ENABLED.key: "true", LOG_CONTENT.key: CHANGES}),
        (Maintain("replay"),),
    ),
    "MERGE of nested rows without Spark names an internal view": Known(
        lambda world, action: isinstance(action, Merge) and any(not column.of.is_simple for column in world.columns),
        Table((_ID, _NESTED), ("id",)),
        (Merge(((("id", 1), ("v", {"a": 1, "b": "x"})),), (_ID, _NESTED), True, ("id",)),),
    ),
}
"""Name of a fault → what it is. An entry that no longer fails has to go."""


def avoided(world: World, action: Action, meets: frozenset[str] = frozenset()) -> bool:
    """Whether a step would meet a known fault that is not one of ``meets``."""
    inner = [getattr(action, "action", action), getattr(action, "other", action)]
    return any(known.avoids(world, one) for name, known in KNOWN.items() if name not in meets for one in inner)
