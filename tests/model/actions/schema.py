"""Actions that change the schema or the options of the table."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from model.action import Action
from model.kinds import KINDS
from model.tables import Column
from model.world import NotPossible, Refused, World

_REOPEN = "; t = lake.table('db.t')"


def _sql(text: str) -> str:
    return f"lake.sql({text!r}){_REOPEN}"


@dataclass(frozen=True)
class AddColumn(Action):
    """A new column, which is NULL in the rows that are there."""

    name: str
    kind: str
    first: bool
    covers = ("statement:ALTER TABLE", "Table.alter")
    may_refuse = "Iceberg metadata"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if len(world.columns) > 8 or world.table.engine == "aggregation":
            return None
        taken = {column.name for column in world.columns}
        name = rng.choice([name for name in ("v", "w", "x", "y", "z", "a", "b", "c", "d") if name not in taken])
        kinds = [kind for kind in KINDS if world.table.options.get("file.format") != "orc" or "timestamp" not in kind]
        return cls(name, rng.choice(kinds), rng.random() < 0.3)

    @property
    def code(self) -> str:
        return _sql(f"alter table db.t add column {self.name} {self.kind}{' first' if self.first else ''}")

    def apply(self, world: World) -> None:
        if self.name in world.names.values():
            raise NotPossible("the name is taken")
        world.made += 1
        new = Column(f"c{world.made}", self.name, self.kind)
        world.columns = (new, *world.columns) if self.first else (*world.columns, new)


def _free(world: World) -> list[Column]:
    """Columns that no key, option or partition names."""
    named = {name for key, value in world.options.items() for name in (key.split(".")[1:2] + value.split(","))}
    return [c for c in world.columns if c.id not in (*world.keys, *world.partitions) and c.name not in named]


@dataclass(frozen=True)
class DropColumn(Action):
    """A column goes, with its values: a later column of its name is another one."""

    name: str
    covers = ("statement:ALTER TABLE",)
    weight = 0.7

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        free = _free(world)
        return (
            cls(rng.choice(free).name) if len(free) > 1 and "bucket-key" in world.options | {"bucket-key": ""} else None
        )

    may_refuse = "bucket|NOT NULL"

    @property
    def code(self) -> str:
        return _sql(f"alter table db.t drop column {self.name}")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if len(world.columns) < 3 or column not in _free(world):
            raise NotPossible("the column is needed")
        world.columns = tuple(c for c in world.columns if c != column)


@dataclass(frozen=True)
class RenameColumn(Action):
    """A column has another name, also in the options that name it."""

    name: str
    new: str
    covers = ("statement:ALTER TABLE",)
    may_refuse = "bucket"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        free = _free(world)
        taken = set(world.names.values())
        new = rng.choice([name for name in ("v", "w", "x", "y", "z", "a", "b", "key") if name not in taken])
        return cls(rng.choice(free).name, new) if free else None

    @property
    def code(self) -> str:
        return _sql(f"alter table db.t rename column {self.name} to {self.new}")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if self.new in world.names.values():
            raise NotPossible("the name is taken")
        world.columns = tuple(replace(c, name=self.new) if c == column else c for c in world.columns)


@dataclass(frozen=True)
class ChangeType(Action):
    """A column has a wider type; a narrower one is refused."""

    name: str
    kind: str
    covers = ("statement:ALTER TABLE",)
    may_refuse = "bucket|partition|key|ORC|orc"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        column = rng.choice(world.columns)
        kinds = [*column.of.wider, *column.of.narrower]
        in_key = column.id in (*world.keys, *world.partitions)
        if not kinds or in_key or column not in _free(world) or world.table.engine == "aggregation":
            return None
        return cls(column.name, rng.choice(kinds))

    @property
    def code(self) -> str:
        return _sql(f"alter table db.t alter column {self.name} type {self.kind}")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if self.kind in column.of.narrower:
            raise Refused(f"{column.kind} to {self.kind} cannot hold all values")
        if self.kind not in column.of.wider or column.default is not None:
            raise NotPossible("another type")
        world.columns = tuple(replace(c, kind=self.kind) if c == column else c for c in world.columns)


@dataclass(frozen=True)
class SetDefault(Action):
    """A column has another default, or none: rows that are there stay as they are."""

    name: str
    kind: str
    value: object
    covers = ("statement:ALTER TABLE",)
    weight = 0.7

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        columns = [
            c for c in _free(world) if c.of.is_simple and c.kind not in ("binary", "timestamp") and c.is_nullable
        ]
        if not columns or world.table.engine != "deduplicate":
            return None
        column = rng.choice(columns)
        values = [value for value in column.of.values if "(" not in column.of.code(value)]
        return cls(column.name, column.kind, rng.choice([None, *values]))

    @property
    def code(self) -> str:
        words = "drop default" if self.value is None else f"set default {KINDS[self.kind].code(self.value)}"
        return _sql(f"alter table db.t alter column {self.name} {words}")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if column.kind != self.kind:
            raise NotPossible("another type")
        world.columns = tuple(replace(c, default=self.value) if c == column else c for c in world.columns)


@dataclass(frozen=True)
class SetOption(Action):
    """An option that changes no reading."""

    option: str
    value: str
    covers = ("statement:ALTER TABLE",)
    may_refuse = "does not go with"
    OPTIONS: ClassVar[dict[str, tuple[str, ...]]] = {
        "write-only": ("true", "false"),
        "file.format": ("parquet", "avro"),
        "file.compression": ("zstd", "none", "snappy"),
        "num-sorted-run.compaction-trigger": ("2", "5"),
        "snapshot.num-retained.max": ("10", "100"),
        "target-file-size": ("1 kb", "1 mb"),
        "manifest.merge-min-count": ("2", "30"),
    }

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        option = rng.choice(["write-only", *cls.OPTIONS])
        return cls(option, rng.choice(cls.OPTIONS[option]))

    @property
    def code(self) -> str:
        return _sql(f"alter table db.t set tblproperties ('{self.option}' = '{self.value}')")

    @property
    def forgets(self) -> bool:  # type: ignore[override]
        return self.option.startswith("snapshot.")

    def apply(self, world: World) -> None:
        world.options[self.option] = self.value


@dataclass(frozen=True)
class Remark(Action):
    """Changes of the table's description alone."""

    text: str
    covers = (
        "statement:COMMENT ON TABLE",
        "statement:ALTER TABLE",
        "statement:CACHE TABLE",
        "statement:UNCACHE TABLE",
        "statement:CACHE LAZY TABLE",
        "statement:CLEAR CACHE",
    )
    weight = 0.3
    TEXTS: ClassVar[tuple[str, ...]] = (
        "comment on table db.t is 'a table'",
        "alter table db.t alter column id comment 'the key'",
        "cache table db.t",
        "uncache table if exists db.t",
        "clear cache",
        "cache lazy table db.t",
    )
    may_refuse = "view"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.choice(cls.TEXTS))

    def apply(self, world: World) -> None:
        if " id " in self.text and "id" not in world.names.values():
            raise NotPossible("no such column")

    @property
    def code(self) -> str:
        return _sql(self.text)


@dataclass(frozen=True)
class RenameTable(Action):
    """The table has another name for a moment."""

    as_sql: bool
    covers = ("Lake.rename_table", "statement:ALTER TABLE")
    weight = 0.3

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(rng.random() < 0.5)

    @property
    def code(self) -> str:
        if self.as_sql:
            there, back = "alter table db.t rename to db.other", "alter table db.other rename to db.t"
            return f"lake.sql({there!r}); lake.sql({back!r}){_REOPEN}"
        return f"lake.rename_table('db.t', 'db.other'); lake.rename_table('db.other', 'db.t'){_REOPEN}"

    def apply(self, world: World) -> None:
        world.handles.clear()
