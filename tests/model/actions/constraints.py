"""Actions on CHECK constraints: they come, meet the rows that are there, and go."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lakelog.options.constraints import ACTIONS
from model.action import Action, drawn_rows, resolved
from model.actions.schema import altered
from model.predicates import Condition, draw_condition
from model.world import Check, NotPossible, Refused, World


@dataclass(frozen=True)
class AddConstraint(Action):
    """A condition on each new row. Rows that are there have to meet it, too, unless it is NOT VALID."""

    name: str
    condition: Condition
    names: tuple[tuple[str, str], ...]
    on_violation: str
    is_valid: bool
    covers = ("statement:ALTER TABLE", "constraint:ADD", *(f"constraint:{action}" for action in ACTIONS))
    weight = 0.8
    may_refuse = "a filter compares columns with values"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        sample = resolved(world, drawn_rows(rng, world, 12))
        for _ in range(8):
            condition = draw_condition(rng, world.columns, 1)
            share = sum(condition.holds(values) is False for values in sample) / len(sample)
            if 0 < share < 0.4:
                action = rng.choice(ACTIONS)
                name = rng.choice([name for name in ("a", "b", "c") if name not in world.checks] or ["a"])
                return cls(name, condition, tuple(world.names.items()), action, rng.random() < 0.7)
        return None

    @property
    def code(self) -> str:
        more = "" if self.on_violation == "fail" else f" on violation {self.on_violation}"
        end = "" if self.is_valid else " not valid"
        return altered(
            f"alter table db.t add constraint {self.name} check ({self.condition.sql(dict(self.names))}){more}{end}"
        )

    def apply(self, world: World) -> None:
        if any(world.names.get(one) != dict(self.names)[one] for one in self.condition.columns):
            raise NotPossible("a column is not there")
        if self.name in world.checks:
            raise Refused("there is one of its name")
        if self.is_valid and any(self.condition.holds(values) is False for values in world.live()):
            raise Refused("a row violates it")
        world.had_checks = True
        world.checks[self.name] = Check(self.condition, self.on_violation)


@dataclass(frozen=True)
class DropConstraint(Action):
    """A condition goes."""

    name: str
    if_exists: bool
    covers = ("statement:ALTER TABLE", "constraint:DROP")
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(list(world.checks)), rng.random() < 0.3) if world.checks else None

    @property
    def code(self) -> str:
        return altered(f"alter table db.t drop constraint {'if exists ' if self.if_exists else ''}{self.name}")

    def apply(self, world: World) -> None:
        if self.name not in world.checks and not self.if_exists:
            raise Refused("there is none of its name")
        world.checks.pop(self.name, None)
