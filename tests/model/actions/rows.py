"""Actions that add and change rows."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, replace
from typing import Any

from model.action import Action, NamedRows, drawn_rows, drawn_value, resolved, table_code
from model.kinds import local
from model.predicates import Condition, draw_condition
from model.tables import Column
from model.world import NotPossible, Refused, World


@dataclass(frozen=True)
class Write(Action):
    """Rows by ``lake.write``, the table, a writer, or a writer with several commits; ``t`` or an old handle.

    As a frame with categories for its texts, or with times of the clocks here, without a zone.
    """

    rows: NamedRows
    columns: tuple[Column, ...]
    how: str = "write"
    handle: str = "t"
    covers = (
        "Lake.write",
        "Table.write",
        "Table.append",
        "Table.upsert",
        "Table.writer",
        "TableWriter.write",
        "TableWriter.commit",
        "TableWriter.close",
        "TableWriter.flush",
    )
    weight = 4.0
    writes = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        handle = rng.choice(["t", "t", *world.handles])
        rows = drawn_rows(rng, world, rng.choice([1, 2, 4, 8]), handle)
        how = rng.choice(["write", "writer", "commits", "flush", "frame", "naive", "table"])
        how = ("upsert" if world.table.key else "append") if how == "table" and rng.random() < 0.5 else how
        if handle != "t" and how != "commits" or how == "frame" and not all(c.of.is_simple for c in world.columns):
            how = "writer"
        return cls(rows, world.handle(handle).columns, how, handle)

    @property
    def code(self) -> str:
        if self.how == "write":
            return f"lake.write({table_code(self.columns, self.rows)}, 'db.t')"
        if self.how in ("table", "append", "upsert"):
            return f"t.{self.how.replace('table', 'write')}({table_code(self.columns, self.rows)})"
        if self.how == "naive":
            rows = tuple(tuple((name, without_zone(value)) for name, value in row) for row in self.rows)
            made = table_code(self.columns, rows).replace("pa.timestamp('us', tz='UTC')", "pa.timestamp('us')")
            return f"lake.write({made}, 'db.t')"
        if self.how == "frame":
            frame = f"pl.from_arrow({table_code(self.columns, self.rows)})"
            return f"lake.write({frame}.with_columns(pl.col(pl.String).cast(pl.Categorical)), 'db.t')"
        between = {"commits": "\n    w.commit()", "flush": "\n    w.flush()"}.get(self.how, "")
        lines = [f"    w.write({table_code(self.columns, part)})" for part in self._parts]
        return f"with {self.handle}.writer() as w:\n" + f"{between}\n".join(lines)

    @property
    def _parts(self) -> list[NamedRows]:
        """The rows of each call of the writer."""
        half = len(self.rows) // 2
        return [self.rows[:half], self.rows[half:]] if half and self.how != "writer" else [self.rows]

    def left(self, world: World) -> list[World]:
        first, *more = self._parts
        if not more or self.how != "commits":
            return [world]
        try:
            return [*replace(self, rows=first, how="writer").outcomes(world), world]
        except Refused:
            return [world]

    def apply(self, world: World) -> None:
        if self.how == "naive" and any(
            value is Ellipsis for row in self.rows for value in map(without_zone, dict(row).values())
        ):
            raise NotPossible("the clocks here show a time twice")
        for values in resolved(world, self.rows, self.handle):
            world.put(values, rejecting=self.handle)


def without_zone(value: Any) -> Any:
    """A time as the clocks here show it, ``...`` if they show it twice or never; other values as they are."""
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        return value
    return ... if (shown := local(value)) is None else shown


@dataclass(frozen=True)
class Insert(Action):
    """INSERT … VALUES of all columns, also with an open PARTITION, or of some: the others get their default."""

    rows: NamedRows
    columns: tuple[Column, ...]
    part: str = ""
    covers = ("statement:INSERT", "Lake.sql", "statement:VALUES")
    weight = 2.0
    writes = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        columns = [c for c in world.columns if c.of.is_simple]
        is_whole = len(columns) == len(world.columns)
        if world.partitions and is_whole and rng.random() < 0.3:
            of_clause = next(c for c in columns if c.id in world.partitions)
            rows = drawn_rows(rng, world, rng.choice([1, 3]))
            return cls(rows, tuple(columns), of_clause.name)
        left = {
            c.name
            for c in columns
            if c.id not in (*world.keys, *world.partitions) and c.is_nullable and rng.random() < 0.3
        }
        kept = [c for c in columns if c.name not in left]
        rows = drawn_rows(rng, world, rng.choice([1, 3]))
        kept = kept or columns
        names = {c.name for c in kept}
        return cls(tuple(tuple(pair for pair in row if pair[0] in names) for row in rows), tuple(kept))

    @property
    def code(self) -> str:
        kinds = {c.name: c.of for c in self.columns}
        rows = [sorted(row, key=lambda pair: pair[0] == self.part) for row in self.rows]
        texts = [", ".join(kinds[name].code(value) for name, value in row) for row in rows]
        into = f"partition ({self.part})" if self.part else f"({', '.join(c.name for c in self.columns)})"
        return f"lake.sql({f'insert into db.t {into} values ' + ', '.join(f'({one})' for one in texts)!r})"

    def apply(self, world: World) -> None:
        named = {name for name, _ in self.rows[0]}
        if any(not c.is_nullable and c.name not in named for c in world.columns):
            raise Refused("a column is NOT NULL")
        for values in resolved(world, self.rows):
            world.put({c.id: values[c.id] if c.name in named else c.default for c in world.columns}, rejecting="t")


@dataclass(frozen=True)
class Update(Action):
    """UPDATE by a condition, of a column that is not in the key."""

    column: Column
    value: object
    where: Condition
    names: tuple[tuple[str, str], ...]
    as_sql: bool
    covers = ("statement:UPDATE", "Table.update")
    weight = 2.0
    writes = True
    settles = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.table.is_plain or world.seen is not world.rows:
            return None
        fixed = (*world.keys, *world.partitions)
        columns = [c for c in world.columns if c.id not in fixed and c.of.is_simple]
        if not columns:
            return None
        column = rng.choice(columns)
        where = draw_condition(rng, world.columns)
        return cls(column, drawn_value(rng, world, column), where, tuple(world.names.items()), rng.random() < 0.5)

    @property
    def code(self) -> str:
        where = self.where.sql(dict(self.names))
        value = self.column.of.code(self.value)
        if self.as_sql:
            return f"lake.sql({f'update db.t set {self.column.name} = {value} where {where}'!r})"
        return f"t.update({{{self.column.name!r}: {value!r}}}, {where!r})"

    def apply(self, world: World) -> None:
        _check_names(world, self.names, self.where, self.column)
        live = world.live()
        if not world.table.key:
            changed = [(v | {self.column.id: self.value} if self.where.holds(v) else None, v) for v in live]
            for new, _ in changed:
                if new is not None:
                    world.check(new)
            world.rows = tuple(old if new is None else new for new, old in changed)
            return
        for values in live:
            if self.where.holds(values):
                world.put(values | {self.column.id: self.value}, 2)


@dataclass(frozen=True)
class Delete(Action):
    """DELETE by a condition, or of all rows."""

    where: Condition | None
    names: tuple[tuple[str, str], ...]
    as_sql: bool
    covers = ("statement:DELETE FROM", "Table.delete")
    may_refuse = "removes no keys"
    weight = 2.0
    writes = True
    settles = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        where = None if rng.random() < 0.1 or world.seen is not world.rows else draw_condition(rng, world.columns)
        return cls(where, tuple(world.names.items()), rng.random() < 0.5)

    @property
    def code(self) -> str:
        where = None if self.where is None else self.where.sql(dict(self.names))
        if self.as_sql:
            return f"lake.sql({'delete from db.t' + ('' if where is None else f' where {where}')!r})"
        return f"t.delete({'' if where is None else repr(where)})"

    def apply(self, world: World) -> None:
        _check_names(world, self.names, self.where)
        of_partitions = self.where is None or self.where.columns <= set(world.partitions)
        if not world.table.can_delete and not of_partitions and any(map(self.where.holds, world.live())):
            raise Refused("its merge engine removes no keys")
        if not world.table.key or of_partitions:
            drops_files = world.table.drops_files
            world.keep(lambda values: self.where is not None and not self.where.holds(values), drops_files)
            return
        for values in world.live():
            if self.where.holds(values):
                world.retract(values)


def _check_names(world: World, names: tuple[tuple[str, str], ...], where: Condition | None, *columns: Column) -> None:
    """The columns have to have the names that they had."""
    needed = {column.id for column in columns} | (where.columns if where is not None else set())
    if any(world.names.get(one) != dict(names)[one] for one in needed):
        raise NotPossible("a column is not there")
    kinds = {column.id: column.kind for column in world.columns}
    if any(kinds[column.id] != column.kind for column in columns):
        raise NotPossible("a column has another type")
