"""Actions that write changes: rows with their kinds, MERGE, rows that a statement takes from the table itself."""

from __future__ import annotations

import random
from dataclasses import dataclass

from model.action import Action, NamedRows, drawn_rows, resolved, table_code
from model.predicates import Condition, draw_condition
from model.tables import Column
from model.world import NotPossible, Refused, World

_RETRACTING = {"sum", "product", "last_value", "last_non_null_value"}
"""Functions of an aggregation that can take a value back."""


@dataclass(frozen=True)
class Changes(Action):
    """A changelog of some keys as a foreign system sends it: each old row equals the last new one."""

    rows: NamedRows
    columns: tuple[Column, ...]
    kinds: tuple[str, ...]
    parts: int = 1
    covers = ("TableWriter.write",)
    writes = True
    weight = 1.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.table.key or world.table.engine == "first-row" or world.seen is not world.rows:
            return None
        if world.table.engine != "deduplicate":
            rows = drawn_rows(rng, world, rng.choice([1, 2]))
            return cls(rows, world.columns, tuple(rng.choice(["+I", "+U", "-D"]) for _ in rows))
        live = {world.key_of(values): values for values in world.live()}
        rows, kinds = [], []
        for new in drawn_rows(rng, world, rng.choice([1, 2, 4])):
            (values,) = resolved(world, (new,))
            key = world.key_of(values)
            old = live.get(key)
            named = None if old is None else tuple((c.name, old[c.id]) for c in world.columns)
            if named is None:
                steps = [("+I", new)]
                live[key] = values
            elif rng.random() < 0.5:
                steps = [("-U", named), ("+U", new)]
                live[key] = values
            else:
                steps = [(rng.choice(["-D", "-U"]), named)]
                del live[key]
            kinds += [kind for kind, _ in steps]
            rows += [row for _, row in steps]
        return cls(tuple(rows), world.columns, tuple(kinds), rng.choice([1, 1, 2]))

    @property
    def code(self) -> str:
        half = len(self.rows) // 2 if self.parts == 2 else 0
        parts = [(self.rows[:half], self.kinds[:half]), (self.rows[half:], self.kinds[half:])]
        lines = [f"    w.write({table_code(self.columns, rows, kinds)})" for rows, kinds in parts if rows]
        return "with t.writer() as w:\n" + "\n".join(lines)

    def apply(self, world: World) -> None:
        if len(self.kinds) != len(self.rows):
            raise NotPossible("kinds and rows differ")
        if world.table.engine == "deduplicate":
            held = {world.key_of(values): values for values in world.live()}
        for values, kind in zip(resolved(world, self.rows), self.kinds, strict=True):
            key = world.key_of(values)
            if kind[0] == "-" and not world.table.can_delete:
                if world.table.engine == "aggregation" and set(world.table.merge.functions.values()) <= _RETRACTING:
                    raise NotPossible("all its functions take values back: tests/property/test_aggregates.py")
                raise Refused("its merge engine takes no retractions")
            if world.table.engine == "deduplicate":
                if kind[0] == "-" and held.pop(key, None) != values:
                    raise NotPossible("an old row is not what was there")
                if kind[0] == "+":
                    held[key] = values
            if kind == "+U" and world.breaks(values):
                raise NotPossible("a pair is rejected, or none of it: tests/unit/table/test_constraints.py")
            world.put(values, ("+I", "-U", "+U", "-D").index(kind), rejecting="t")


@dataclass(frozen=True)
class Merge(Action):
    """MERGE of Arrow rows by the whole key: updates what is there, and inserts what is not."""

    rows: NamedRows
    columns: tuple[Column, ...]
    inserts: bool
    key: tuple[str, ...]
    covers = ("Table.merge", "statement:MERGE INTO")
    writes = True

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.table.key or not world.table.is_plain or world.seen is not world.rows:
            return None
        rows = drawn_rows(rng, world, rng.choice([1, 3]))
        once = {world.key_of(values): row for row, values in zip(rows, resolved(world, rows), strict=True)}
        names = world.names
        return cls(tuple(once.values()), world.columns, rng.random() < 0.7, tuple(names[key] for key in world.keys))

    @property
    def code(self) -> str:
        on = " and ".join(f"t.{name} = s.{name}" for name in self.key)
        more = ".when_not_matched_insert_all()" if self.inserts else ""
        return f"t.merge({table_code(self.columns, self.rows)}, {on!r}).when_matched_update_all(){more}.execute()"

    def apply(self, world: World) -> None:
        there = {world.key_of(values) for values in world.live()}
        for values in resolved(world, self.rows):
            if self.inserts or world.key_of(values) in there:
                world.put(values)


@dataclass(frozen=True)
class InsertSelect(Action):
    """INSERT of the table's own rows: twice as many without a key, the same with one."""

    where: Condition
    names: tuple[tuple[str, str], ...]
    covers = ("statement:INSERT", "statement:SELECT")
    writes = True
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        if not world.table.is_plain or world.seen is not world.rows or len(world.live()) > 40:
            return None
        return cls(draw_condition(rng, world.columns), tuple(world.names.items()))

    @property
    def code(self) -> str:
        text = f"insert into db.t select * from db.t where {self.where.sql(dict(self.names))}"
        return f"lake.sql({text!r})"

    def apply(self, world: World) -> None:
        if any(world.names.get(one) != dict(self.names)[one] for one in self.where.columns):
            raise NotPossible("a column is not there")
        for values in world.live():
            if self.where.holds(values):
                world.put(values, rejecting="t")


@dataclass(frozen=True)
class FailedBatch(Action):
    """A batch that does not fit, caught inside of the block: the good rows are in, or the block raises."""

    rows: NamedRows
    columns: tuple[Column, ...]
    covers = ("TableWriter.write",)
    writes = True
    may_refuse = "."
    weight = 0.4

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(drawn_rows(rng, world, 2), world.columns)

    @property
    def code(self) -> str:
        return (
            f"with t.writer() as w:\n    w.write({table_code(self.columns, self.rows)})\n"
            "    try: w.write(pa.table({'no such column': [1]}))\n    except lakelog.errors.LakelogError: pass"
        )

    def apply(self, world: World) -> None:
        for values in resolved(world, self.rows):
            world.put(values, rejecting="t")


@dataclass(frozen=True)
class Abort(Action):
    """A writer that gives its rows up."""

    rows: NamedRows
    columns: tuple[Column, ...]
    covers = ("TableWriter.abort",)
    weight = 0.5

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        return cls(drawn_rows(rng, world, 2), world.columns)

    @property
    def code(self) -> str:
        return (
            f"with t.writer() as w:\n    w.write({table_code(self.columns, self.rows)})\n    w.flush()\n    w.abort()"
        )

    def apply(self, world: World) -> None:
        given_up(world, self.rows)


def given_up(world: World, rows: NamedRows) -> None:
    """Rows that are written, and never committed: those that do not fit are refused all the same."""
    after = world.twin()
    for values in resolved(world, rows):
        after.put(values, rejecting="t")
