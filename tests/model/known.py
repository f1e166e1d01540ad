"""Faults that are known: histories steer around them, and a test asks of each whether it is still there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from model.action import Action
from model.actions.rows import Write
from model.tables import Column, Table
from model.world import NotPossible, Refused, World


@dataclass(frozen=True)
class Known:
    """A fault: whether a step in this state would meet it, and a table and steps that show it."""

    avoids: Callable[[World, Action], bool]
    table: Table
    steps: tuple[Action, ...]


def _loses_a_sum(world: World, action: Action) -> bool:
    """True if a sum does not fit after the step, where compactions keep one row of a key: the next row begins anew."""
    options, functions = world.table.options, world.table.merge.functions
    keeps_one = options.get("changelog-producer", "none") not in ("none", "input") or (
        options.get("deletion-vectors.enabled") == "true"
    )
    sums = [column for column, function in functions.items() if function == "sum"]
    if not keeps_one or not sums:
        return False
    try:
        states = action.outcomes(world)
    except (NotPossible, Refused):
        return False
    for state in states:
        for values in state.live():
            rows = state.rows[state.key_of(values)] if isinstance(state.rows, dict) else ()
            if any(values[c] is None and any(row.values.get(c) is not None for row in rows) for c in sums):
                return True
    return False


_COLUMNS: Final = (Column("c0", "id", "int", is_nullable=False), Column("c2", "v", "decimal(9,2)"))
_MOST: Final = ((("id", 1), ("v", Decimal("9999999.99"))),)
KNOWN: Final[dict[str, Known]] = {
    "a sum that did not fit begins anew": Known(
        _loses_a_sum,
        Table(
            _COLUMNS,
            ("id",),
            options={
                "merge-engine": "aggregation",
                "fields.v.aggregate-function": "sum",
                "bucket": "1",
                "deletion-vectors.enabled": "true",
            },
        ),
        tuple(Write(_MOST, _COLUMNS) for _ in range(3)),
    )
}
"""Name of a fault → what it is. An entry that no longer fails has to go."""


def avoided(world: World, action: Action, meets: frozenset[str] = frozenset()) -> bool:
    """Whether a step would meet a known fault that is not one of ``meets``."""
    inner = [getattr(action, "action", action), getattr(action, "other", action)]
    return any(known.avoids(world, one) for name, known in KNOWN.items() if name not in meets for one in inner)
