"""Faults that are known: histories steer around them, and a test asks of each whether it is still there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from model.action import Action
from model.actions.changes import Changes, FailedBatch, Merge
from model.actions.maintenance import Maintain, Rescale
from model.actions.rows import Delete
from model.actions.schema import ChangeType
from model.tables import is_log_of_changes, may_hide
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


def avoided(world: World, action: Action, meets: frozenset[str] = frozenset()) -> bool:
    """Whether a step would meet a known fault that is not one of ``meets``."""
    inner = getattr(action, "action", action)
    return any(avoids(world, inner) for name, avoids in KNOWN.items() if name not in meets)


def _has(action: Action, name: str) -> Any:
    return getattr(action, name, None)


@known("chaos.md B4: a block with a batch that failed ends without a word, and without its rows")
def _failed_batch(world: World, action: Action) -> bool:
    return isinstance(action, FailedBatch)


@known("bugs.md 13 (class): replay of rejected rows is refused by a table whose log follows its files")
def _replay(world: World, action: Action) -> bool:
    return isinstance(action, Maintain) and "replay" in action.way and is_log_of_changes(world.options)


@known("sql.md S1-1: RESCALE loses rows that no compaction has merged")
def _rescale(world: World, action: Action) -> bool:
    return isinstance(action, Rescale) and may_hide(world.table)


@known("mission.md 1: a late -U is thrown away")
def _late_retraction(world: World, action: Action) -> bool:
    kinds = getattr(action, "kinds", ())
    return any(kind == "-U" and kinds[at + 1 : at + 2] != ("+U",) for at, kind in enumerate(kinds))


@known("mission.md 4: an aggregation takes rows that it cannot fold")
def _poison(world: World, action: Action) -> bool:
    return isinstance(action, Changes) and world.table.engine == "aggregation" and set(action.kinds) != {"+I"}


@known("bugs.md 07: deleted values come back")
def _comes_back(world: World, action: Action) -> bool:
    deletes = isinstance(action, Delete) or "-D" in getattr(action, "kinds", ())
    return deletes and world.table.engine in ("aggregation", "partial-update")


@known("bugs.md 18: first_value depends on when a compaction ran")
def _first_value(world: World, action: Action) -> bool:
    return "sequence.field" in world.options and world.table.engine == "aggregation"


@known("newcomer.md 11: MERGE of nested rows without Java names an internal view")
def _nested_merge(world: World, action: Action) -> bool:
    return isinstance(action, Merge)


@known("sql.md S1-2, S2-2: CHAR means something else without Java")
def _char(world: World, action: Action) -> bool:
    return any(column.kind.startswith("char") for column in world.columns)


@known("newcomer.md 1: a type becomes narrower")
def _narrow(world: World, action: Action) -> bool:
    return isinstance(action, ChangeType) and action.kind in world.column(action.name).of.narrower


@known("sql.md S1-3: a default replaces NULL")
def _default(world: World, action: Action) -> bool:
    return any(column.default is not None for column in world.columns)
