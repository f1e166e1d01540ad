"""Actions that replace rows: overwrites, truncation, dropped partitions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from model.action import Action, NamedRows, drawn_rows, resolved, table_code
from model.kinds import plain
from model.tables import Column
from model.world import World


def drawn_partition(rng: random.Random, world: World) -> Any:
    """A value of the partition column."""
    (column,) = (c for c in world.columns if c.id in world.partitions)
    return rng.choice([value for value in column.of.values[:4] if value == value])


@dataclass(frozen=True)
class Overwrite(Action):
    """Rows in place of those of their partitions, of one partition, or of the table."""

    rows: NamedRows
    columns: tuple[Column, ...]
    how: str
    partition: Any = None
    covers = ("Lake.write", "Table.writer")
    writes = True
    settles = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        how = rng.choice(["write", "writer", "sql", "partition"])
        if how == "sql" and not all(column.of.is_simple for column in world.columns):
            how = "write"  # there are no literals
        rows = drawn_rows(rng, world, rng.choice([1, 3]))
        if how == "partition" and world.partitions:
            part = drawn_partition(rng, world)
            rows = tuple(tuple((name, part if name == "p" else value) for name, value in row) for row in rows)
            return cls(rows, world.columns, how, part)
        return cls(rows, world.columns, "writer" if how == "partition" else how)

    @property
    def code(self) -> str:
        made = table_code(self.columns, self.rows)
        if self.how == "write":
            return f"lake.write({made}, 'db.t', overwrite=True)"
        if self.how == "sql":
            kinds = {c.name: c.of for c in self.columns}
            values = ", ".join(
                "(" + ", ".join(kinds[name].code(value) for name, value in row) + ")" for row in self.rows
            )
            return f"lake.sql({f'insert overwrite db.t values {values}'!r})"
        target = "True" if self.how == "writer" else repr({"p": self.partition})
        return f"with t.writer(overwrite={target}) as w:\n    w.write({made})"

    def apply(self, world: World) -> None:
        rows = resolved(world, self.rows)
        if self.how == "sql" or not world.partitions:
            world.keep(lambda values: False, world.table.drops_files)
        else:
            gone = {world.partition_of(values) for values in rows}
            world.keep(lambda values: world.partition_of(values) not in gone, world.table.drops_files)
        for values in rows:
            world.put(values)


@dataclass(frozen=True)
class Truncate(Action):
    """All rows of the table, or of a partition, go."""

    how: str
    partition: Any = None
    covers = ("statement:TRUNCATE TABLE", "Table.truncate", "Table.drop_partitions")
    weight = 0.7
    may_refuse = "has no partition"
    settles = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if world.partitions and rng.random() < 0.7:
            return cls(rng.choice(["part", "drop"]), drawn_partition(rng, world))
        return cls(rng.choice(["sql", "api"]))

    @property
    def code(self) -> str:
        named = {"p": self.partition}
        return {
            "sql": "lake.sql('truncate table db.t')",
            "api": "t.truncate()",
            "part": f"t.truncate({named!r})",
            "drop": f"t.drop_partitions([{named!r}], if_exists=True)",
        }[self.how]

    def apply(self, world: World) -> None:
        part = (plain(self.partition),)
        world.keep(lambda values: self.partition is not None and world.partition_of(values) != part)


@dataclass(frozen=True)
class DropPartition(Action):
    """ALTER TABLE DROP PARTITION with a literal of the column."""

    column: Column
    partition: Any
    covers = ("statement:ALTER TABLE DROP PARTITION", "statement:ALTER TABLE ADD PARTITION")
    weight = 0.5
    may_refuse = "has no partition"
    settles = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.partitions:
            return None
        return cls(next(c for c in world.columns if c.id in world.partitions), drawn_partition(rng, world))

    @property
    def code(self) -> str:
        value = self.column.of.code(self.partition)
        return f"lake.sql({f'alter table db.t drop if exists partition (p = {value})'!r})"

    def apply(self, world: World) -> None:
        part = (plain(self.partition),)
        world.keep(lambda values: world.partition_of(values) != part)
