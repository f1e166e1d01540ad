"""Actions of others: old handles, other processes, wrong clocks, writers that nobody closes, storage that fails."""

from __future__ import annotations

import random
from dataclasses import dataclass

from model.action import ACTIONS, Action, NamedRows, drawn_rows, table_code
from model.actions.maintenance import Rescale
from model.tables import Column
from model.world import World


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
        world.handles["old"] = world.columns


@dataclass(frozen=True)
class Reopen(Action):
    """The process ends, and another one begins."""

    covers = ("Lake.close", "Lake.table_exists", "Lake.list_tables", "Lake.list_databases")
    weight = 0.5

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


@dataclass(frozen=True)
class Follow(Action):
    """A reader of the log begins, and reads on later from its position."""

    start: str
    covers = ("Table.tail",)
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(["earliest", "latest-full"])) if world.table.has_log else None

    @property
    def code(self) -> str:
        return f"running = Fold(t, {self.start!r})"

    def apply(self, world: World) -> None:
        world.follows = True


@dataclass(frozen=True)
class Failing(Action):
    """Another action, in which one call of the storage fails: it has happened, or it has not."""

    action: Action
    number: int
    kind: str
    covers = ("storage",)
    merges = writes = True
    forgets = True
    weight = 1.0

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        names = (
            "Write",
            "Insert",
            "Update",
            "Delete",
            "Overwrite",
            "Truncate",
            "Maintain",
            "Rescale",
            "Merge",
            "Changes",
            "Rollback",
        )
        (kind,) = rng.choices([one for one in ACTIONS if one.__name__ in names])
        inner = kind.draw(rng, world)
        is_whole = getattr(inner, "how", "") != "commits" and not isinstance(inner, Rescale)  # they are two steps
        if (
            inner is None
            or not is_whole
            or world.seen is not world.rows
            or ("handle" in vars(inner) and vars(inner)["handle"] != "t")
        ):
            return None
        return cls(inner, rng.randrange(1, 25), rng.choice(["before", "after", "dies"]))

    @property
    def code(self) -> str:
        inner = "\n    ".join(self.action.code.split("\n"))
        return f"with failing({self.number}, {self.kind!r}):\n    {inner}"

    @property
    def may_refuse(self) -> str:  # type: ignore[override]
        return self.action.may_refuse

    def apply(self, world: World) -> None:
        self.action.apply(world)
