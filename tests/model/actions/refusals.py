"""Rows that a table cannot take: they are refused by name, and nothing is written."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from model.action import Action, NamedRows, drawn_rows, table_code
from model.tables import Column
from model.world import NotPossible, Refused, World


@dataclass(frozen=True)
class WrongRow(Action):
    """Rows of which one has a value, a column or a gap that does not fit. ``arrow`` is "" if the column is left out."""

    rows: NamedRows
    columns: tuple[Column, ...]
    name: str
    arrow: str
    value: Any
    covers = ("Lake.write",)

    @classmethod
    def draw(cls, rng: random.Random, world: World) -> Action | None:
        ways: list[tuple[str, str, Any]] = [("nope", "pa.int32()", 1), (world.columns[0].name.upper(), "", None)]
        for column in world.columns:
            ways += [(column.name, arrow, value) for arrow, value in column.of.wrong]
            if not column.is_nullable:
                ways.append((column.name, column.of.arrow, None))
            if world.table.key and world.table.engine == "deduplicate" and column.default is None:
                ways.append((column.name, "", None))
        return cls(drawn_rows(rng, world, 2), world.columns, *rng.choice(ways))

    @property
    def code(self) -> str:
        made = table_code(self.columns, self.rows)
        types = {column.name: column.of.arrow for column in self.columns}
        if not self.arrow and self.name in types:
            made += f".drop_columns([{self.name!r}])"
        elif not self.arrow:  # one of them in upper case, too
            made += f".append_column({self.name!r}, pa.nulls({len(self.rows)}, {self.columns[0].of.arrow}))"
        else:
            if self.name in types:
                made += f".drop_columns([{self.name!r}])"
            made += f".append_column({self.name!r}, pa.array({[self.value] * len(self.rows)!r}, {self.arrow}))"
        return f"lake.write({made}, 'db.t')"

    def apply(self, world: World) -> None:
        if self.columns != world.columns:
            raise NotPossible("other columns")
        raise Refused(f"column {self.name} = {self.value!r} does not fit")
