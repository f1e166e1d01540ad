"""An action: one step of a history, as a user writes it and as the model understands it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from model.tables import Column
from model.world import NotPossible, Values, World

ACTIONS: list[type[Action]] = []
"""Every action that histories are drawn from; a class with ``covers`` adds itself."""


@dataclass(frozen=True)
class Action:
    """A step. ``covers`` names the entries of registries that it runs, ``weight`` how often it is drawn.

    ``may_refuse``: words of the errors with which it may be refused; ``left`` says what then is there. ``forgets``:
    whether snapshots may go. ``writes`` and ``merges``: whether rows that wait for a compaction are seen afterwards, if
    writers compact, or in any case. ``settles``: None if it is not for a table with an epoch that waits, else whether
    the epoch has a snapshot afterwards.
    """

    covers: ClassVar[Sequence[str]] = ()
    weight: ClassVar[float] = 1.0
    may_refuse: ClassVar[str] = ""
    forgets: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    merges: ClassVar[bool] = False
    settles: ClassVar[bool | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "covers" in cls.__dict__:
            ACTIONS.append(cls)

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        """A step for this state; None if there is none."""
        raise NotImplementedError

    @property
    def code(self) -> str:
        """The step in Python, with ``lake`` and ``t``."""
        raise NotImplementedError

    def apply(self, world: World) -> None:
        """What it means. Raises Refused if it has to be refused."""

    def left(self, world: World) -> list[World]:
        """The states that a refusal may leave; the rows say which of several it is."""
        return [world]

    def outcomes(self, world: World) -> list[World]:
        """The states that it may lead to; the rows say which of several it is."""
        after = world.twin()
        self.apply(after)
        after.live()
        return [after]


NamedRows = tuple[tuple[tuple[str, Any], ...], ...]
"""Rows as pairs of name and value, which can be hashed."""


def drawn_rows(rng: random.Random, world: World, count: int, handle: str = "t") -> NamedRows:
    """Rows with the columns that a handle knows; their keys meet often."""
    columns = world.handle(handle).columns
    return tuple(tuple((c.name, drawn_value(rng, world, c)) for c in columns) for _ in range(count))


def drawn_value(rng: random.Random, world: World, column: Column) -> Any:
    """A value of a column."""
    if column.id in world.keys or column.id in world.partitions:
        values = column.of.values[:4] if column.id in world.partitions else column.of.values[:7]
        is_null = column.is_nullable and not world.table.key and rng.random() < 0.1
        return None if is_null else rng.choice([v for v in values if v == v])
    if column.is_nullable and rng.random() < 0.15:
        return None
    if world.table.engine == "aggregation":
        return rng.choice(column.of.values[:5])
    return rng.choice(column.of.values)


def resolved(world: World, rows: NamedRows, handle: str = "t") -> list[Values]:
    """The rows by the ids of their columns; what a handle does not know is NULL, or its default."""
    known = {column.name: column for column in world.handle(handle).columns}
    ids = {column.id for column in world.columns}
    found = []
    for row in rows:
        if any(name not in known for name, _ in row):
            raise NotPossible("a column is not there")
        given = {known[name].id: value for name, value in row}
        found.append({column.id: given.get(column.id) for column in world.columns if column.id in ids})
    return found


def table_code(columns: Iterable[Column], rows: NamedRows, kinds: Sequence[str] = ()) -> str:
    """The rows as an Arrow table; ``kinds`` are their row kinds."""
    names = dict(rows[0]) if rows else {}
    types = ", ".join(f"({c.name!r}, {c.of.arrow})" for c in columns if c.name in names or not rows)
    listed = [dict(row) | ({"_row_kind": kinds[at]} if kinds else {}) for at, row in enumerate(rows)]
    more = ", ('_row_kind', pa.string())" if kinds else ""
    return f"pa.Table.from_pylist({listed!r}, pa.schema([{types}{more}]))"
