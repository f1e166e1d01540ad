"""Actions that change the schema or the options of the table."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import ClassVar

from lakelog.options.log import CHANGES, INPUT, LOG_CONTENT, LOG_ENABLED, LOG_TYPE
from model.action import Action
from model.kinds import KINDS
from model.tables import Column, local_logs
from model.world import NotPossible, Refused, World

_REOPEN = "; t = lake.table('db.t')"


def _by_hand(text: str, call: str) -> str:
    """A change as SQL, or by a method of the table: each name as often one as the other."""
    return altered(text) if sum(map(ord, call)) % 2 else f"t.{call}"


def altered(text: str) -> str:
    """A statement that changes the table, which is opened again."""
    return f"lake.sql({text!r}){_REOPEN}"


@dataclass(frozen=True)
class AddColumn(Action):
    """A new column, which is NULL in the rows that are there."""

    name: str
    kind: str
    first: bool
    covers = ("statement:ALTER TABLE", "Table.alter", "Table.add_column")
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
        if self.first:
            return altered(f"alter table db.t add column {self.name} {self.kind} first")
        add = f"add_column({self.name!r}, {self.kind!r})"
        return _by_hand(f"alter table db.t add column {self.name} {self.kind}", add)

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


def _check_unused(world: World, column: Column) -> None:
    """A column of a constraint can neither go nor be renamed."""
    if any(column.id in check.condition.columns for check in world.checks.values()):
        raise Refused("a constraint uses the column")


@dataclass(frozen=True)
class DropColumn(Action):
    """A column goes, with its values: a later column of its name is another one."""

    name: str
    covers = ("statement:ALTER TABLE", "Table.drop_column")
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
        return _by_hand(f"alter table db.t drop column {self.name}", f"drop_column({self.name!r})")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if len(world.columns) < 3 or column not in _free(world):
            raise NotPossible("the column is needed")
        _check_unused(world, column)
        world.columns = tuple(c for c in world.columns if c != column)


@dataclass(frozen=True)
class RenameColumn(Action):
    """A column has another name, also in the options that name it."""

    name: str
    new: str
    covers = ("statement:ALTER TABLE", "Table.rename_column")
    may_refuse = "bucket"

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        free = _free(world)
        taken = set(world.names.values())
        new = rng.choice([name for name in ("v", "w", "x", "y", "z", "a", "b", "key") if name not in taken])
        return cls(rng.choice(free).name, new) if free else None

    @property
    def code(self) -> str:
        text = f"alter table db.t rename column {self.name} to {self.new}"
        return _by_hand(text, f"rename_column({self.name!r}, {self.new!r})")

    def apply(self, world: World) -> None:
        column = world.column(self.name)
        if self.new in world.names.values():
            raise NotPossible("the name is taken")
        _check_unused(world, column)
        world.columns = tuple(replace(c, name=self.new) if c == column else c for c in world.columns)


@dataclass(frozen=True)
class ChangeType(Action):
    """A column has a wider type; a narrower one is refused."""

    name: str
    kind: str
    covers = ("statement:ALTER TABLE", "Table.alter_column")
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
        text = f"alter table db.t alter column {self.name} type {self.kind}"
        return _by_hand(text, f"alter_column({self.name!r}, {self.kind!r})")

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
        return altered(f"alter table db.t alter column {self.name} {words}")

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
        return altered(f"alter table db.t set tblproperties ('{self.option}' = '{self.value}')")

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
        return altered(self.text)


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


@dataclass(frozen=True)
class SwitchLog(Action):
    """The table gets a log, which begins at this moment, or has none any more; its rows stay."""

    system: str
    content: str
    how: str
    covers = (
        "statement:ALTER TABLE",
        "procedure:add_log",
        "procedure:remove_log",
        "Table.add_log",
        "Table.remove_log",
    )
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        how = rng.choice(["sql", "procedure", "python"])
        if world.table.has_log:
            return cls("", "", how)
        takes_input = world.table.is_plain and world.table.options.get("changelog-producer") != "input"
        return cls(rng.choice(local_logs()), rng.choice([INPUT, CHANGES] if takes_input else [CHANGES]), how)

    @property
    def settles(self) -> bool | None:  # type: ignore[override]
        return self.content != CHANGES

    @property
    def code(self) -> str:
        options = {LOG_TYPE.key: self.system, LOG_CONTENT.key: self.content} if self.system else {}
        if self.how == "python":
            return f"t.add_log({options!r})" if self.system else "t.remove_log()"
        if self.how == "procedure":
            given = ", ".join(f"{key}={value}" for key, value in options.items())
            call = f"add_log(table => 'db.t', options => '{given}')" if self.system else "remove_log(table => 'db.t')"
            return altered(f"call sys.{call}")
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        enabled = f"'{LOG_ENABLED.key}' = '{str(bool(self.system)).lower()}'"
        return altered(f"alter table db.t set tblproperties ({', '.join(filter(None, [enabled, given]))})")

    def apply(self, world: World) -> None:
        if world.table.has_log == bool(self.system):
            raise NotPossible("it is so already")
        placed = {LOG_ENABLED.key, LOG_TYPE.key, LOG_CONTENT.key, "log-store.data-format", "log.changelog-mode"}
        placed |= {"log-store.partitions"}
        options = {key: value for key, value in world.table.options.items() if key not in placed}
        if self.system:
            options |= {LOG_ENABLED.key: "true", LOG_TYPE.key: self.system, LOG_CONTENT.key: self.content}
        world.table = replace(world.table, options=options)
        world.options = {key: value for key, value in world.options.items() if key not in placed} | options
        world.begins_late, world.follows = bool(self.system), False
        world.handles.clear()
