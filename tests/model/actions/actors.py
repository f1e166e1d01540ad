"""Actions of others: old handles, other processes, wrong clocks, writers that nobody closes, storage that fails."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from model.action import ACTIONS, Action, NamedRows, drawn_rows, resolved, table_code
from model.actions.changes import given_up
from model.actions.maintenance import Rescale
from model.tables import Column, may_hide
from model.world import Handle, Refused, Violated, World


@dataclass(frozen=True)
class KeepHandle(Action):
    """A job opens the table now, and writes later."""

    covers = ("Lake.table",)
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls()

    @property
    def code(self) -> str:
        return "old = lake.table('db.t')"

    def apply(self, world: World) -> None:
        world.handles["old"] = Handle(world.columns, dict(world.options), dict(world.checks))


@dataclass(frozen=True)
class Reopen(Action):
    """The process ends, and another one begins."""

    covers = ("Lake.close", "Lake.table_exists", "Lake.list_tables", "Lake.list_databases")
    weight = 0.5
    settles = False

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls()

    @property
    def code(self) -> str:
        return "lake.close(); lake = lakelog.connect(place); t = lake.table('db.t')"

    def apply(self, world: World) -> None:
        world.handles.clear()


@dataclass(frozen=True)
class Clock(Action):
    """The clock of the machine is wrong, or right again."""

    days: float
    covers = ("clock",)
    forgets = True
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice([31, -31, 0.01, 0, 0]))

    @property
    def code(self) -> str:
        return f"clock({self.days})"


@dataclass(frozen=True)
class DroppedWriter(Action):
    """A writer that nobody closes: its rows are nowhere, once its lease is over."""

    rows: NamedRows
    columns: tuple[Column, ...]
    covers = ("TableWriter.flush", "Table.end_writer", "procedure:end_writer")
    forgets = True
    merges = True
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(drawn_rows(rng, world, 2), world.columns)

    @property
    def code(self) -> str:
        made = table_code(self.columns, self.rows)
        return f"w = t.writer(); w.write({made}); w.flush(); del w; gc.collect()\nlater(0.1); optimize(t)"

    def apply(self, world: World) -> None:
        given_up(world, self.rows)


@dataclass(frozen=True)
class Stream(Action):
    """A streaming job commits an epoch, which lakelog's readers see, and which waits for a snapshot."""

    rows: NamedRows
    columns: tuple[Column, ...]
    covers = ("Table.seal",)
    settles = False
    weight = 0.7

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if may_hide(world.table) or world.seen is not world.rows:
            return None
        return cls(drawn_rows(rng, world, rng.choice([1, 3])), world.columns)

    @property
    def code(self) -> str:
        return f"stream(t, {table_code(self.columns, self.rows)})"

    def apply(self, world: World) -> None:
        for values in resolved(world, self.rows):
            world.put(values, rejecting="t")
        world.waits = True
        world.streams += 1


@dataclass(frozen=True)
class Follow(Action):
    """A reader of the log begins, and reads on later from its position."""

    start: str
    covers = ("Table.tail",)
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        starts = ["latest-full"] if world.begins_late else ["earliest", "latest-full"]
        return cls(rng.choice(starts)) if world.table.has_log else None

    @property
    def code(self) -> str:
        return f"running = Fold(t, {self.start!r})"

    def apply(self, world: World) -> None:
        world.follows = True


def drawn_whole(rng: random.Random, world: World, names: tuple[str, ...]) -> Action | None:
    """A step by the newest handle that is done by one call."""
    (kind,) = rng.choices([one for one in ACTIONS if one.__name__ in names])
    inner = kind.draw(rng, world)
    is_whole = getattr(inner, "how", "") != "commits" and not isinstance(inner, Rescale)  # they are two steps
    return inner if is_whole and getattr(inner, "handle", "t") == "t" else None


@dataclass(frozen=True)
class Failing(Action):
    """Another action, in which one call of the storage fails: it has happened, or it has not."""

    action: Action
    number: int
    kind: str
    covers = ("storage",)
    merges = writes = True
    forgets = True
    OTHERS: ClassVar = ("Expire", "Maintain")
    COLUMNS: ClassVar = ("AddColumn", "DropColumn")
    """Rows show whether these have happened, if there are any."""
    CHANGES: ClassVar = ("Write", "Insert", "Update", "Delete", "Overwrite", "Truncate", "Merge", "Changes", "Rollback")

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        names = (*cls.CHANGES, *cls.OTHERS, *(cls.COLUMNS if world.live() else ()))
        inner = drawn_whole(rng, world, names)
        if inner is None or world.seen is not world.rows:
            return None
        return cls(inner, rng.randrange(1, 25), rng.choice(["before", "after", "dies"]))

    @property
    def code(self) -> str:
        inner = "\n    ".join(self.action.code.split("\n"))
        heal = "later(0.1); t = lake.table('db.t'); optimize(t)"
        return f"with failing({self.number}, {self.kind!r}):\n    {inner}\n{heal}"

    @property
    def may_refuse(self) -> str:  # type: ignore[override]
        return "|".join(filter(None, [self.action.may_refuse, "violate constraint"]))

    def outcomes(self, world: World) -> list[World]:
        try:
            return [*self.action.outcomes(world), world.twin()]
        except Violated:  # unless the call fails first
            return [world.twin()]


@dataclass(frozen=True)
class Meanwhile(Action):
    """Another action of another process, while a call of the storage waits: one of both was the first.

    A statement that changes the rows of a table with a key writes what it has read: it is beside maintenance alone.
    """

    action: Action
    other: Action
    number: int
    covers = ("storage",)
    merges = writes = True
    forgets = True
    OTHERS: ClassVar = ("Branch", "Expire", "Maintain")
    READING: ClassVar = ("Update", "Delete", "Merge", "Overwrite", "Truncate", "Changes")

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        names = (*Failing.CHANGES, *cls.OTHERS)
        first, second = drawn_whole(rng, world, names), drawn_whole(rng, world, names)
        if first is None or second is None or world.seen is not world.rows or may_hide(world.table):
            return None
        kinds = {type(first).__name__, type(second).__name__}
        if world.table.key and kinds & {*cls.READING} and not kinds & {"Expire", "Maintain"}:
            return None
        return cls(first, second, rng.randrange(1, 60))

    @property
    def code(self) -> str:
        inner = "\n    ".join(self.action.code.split("\n"))
        return f"with meanwhile({self.number}, {self.other.code!r}, globals()):\n    {inner}\nt = lake.table('db.t')"

    def outcomes(self, world: World) -> list[World]:
        orders = ((self.action, self.other), (self.other, self.action), (self.action,), (self.other,))
        states: list[World] = []
        for order in orders:
            state = world.twin()
            try:
                for step in order:
                    (state,) = step.outcomes(state)
            except Refused:
                continue
            states.append(state)
        return [*states, world.twin()]
