"""Random conditions with their SQL and their meaning: three-valued, as in the standard."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.kinds import text
from model.tables import Column


@dataclass(frozen=True)
class Condition:
    """A condition on rows that are dicts by column id. ``names`` are the columns by id at the time."""

    op: str
    column: Column | None = None
    values: tuple[Any, ...] = ()
    parts: tuple[Condition, ...] = ()

    def sql(self, names: Mapping[str, str], prefix: str = "") -> str:
        """The condition in SQL."""
        if self.op in ("and", "or"):
            return f"({self.parts[0].sql(names, prefix)} {self.op} {self.parts[1].sql(names, prefix)})"
        if self.op == "not":
            return f"not ({self.parts[0].sql(names, prefix)})"
        assert self.column is not None
        name = prefix + names[self.column.id]
        literals = [self.column.of.code(value) for value in self.values]
        if self.op in ("in", "not in"):
            return f"{name} {self.op} ({', '.join(literals)})"
        if self.op == "between":
            return f"{name} between {literals[0]} and {literals[1]}"
        if self.op in ("is null", "is not null"):
            return f"{name} {self.op}"
        if self.op == "like":
            return f"{name} like {text(self.values[0])}"
        return f"{name} {self.op} {literals[0]}"

    @property
    def columns(self) -> frozenset[str]:
        """The ids of its columns."""
        own = frozenset() if self.column is None else frozenset([self.column.id])
        return own.union(*(part.columns for part in self.parts))

    def holds(self, row: Mapping[str, Any]) -> bool | None:
        """True, False or None (unknown)."""
        if self.op == "not":
            inner = self.parts[0].holds(row)
            return None if inner is None else not inner
        if self.op in ("and", "or"):
            first, second = (part.holds(row) for part in self.parts)
            decides = self.op == "or"
            if decides in (first, second):
                return decides
            return None if None in (first, second) else not decides
        assert self.column is not None
        value = row[self.column.id]
        if self.op in ("is null", "is not null"):
            return (value is None) == (self.op == "is null")
        if self.op in ("in", "not in"):
            answers = [_compared("=", value, other) for other in self.values]
            found = True if True in answers else None if None in answers else False
            return found if found is None or self.op == "in" else not found
        if self.op == "between":
            first, last = (v.rstrip() if self.column.kind == "char(5)" else v for v in self.values)  # as in Spark
            low, high = _compared(">=", value, first), _compared("<=", value, last)
            return False if False in (low, high) else None if None in (low, high) else True
        if self.op == "like":
            return None if value is None else _is_like(value, self.values[0])
        return _compared(self.op, value, self.values[0])


def _rank(value: Any) -> Any:
    """NaN is equal to itself and larger than any other number."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def _compared(op: str, value: Any, other: Any) -> bool | None:
    if op == "<=>":
        return (value is None) == (other is None) and (value is None or _rank(value) == _rank(other))
    if value is None or other is None:
        return None
    a, b = _rank(value), _rank(other)
    return bool({"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _is_like(value: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c) or re.escape(c) for c in pattern), value, re.DOTALL) is not None


def draw_condition(rng: random.Random, columns: tuple[Column, ...], depth: int = 2) -> Condition:
    """A condition on simple columns; half of the constants are values that rows are made of."""
    if depth and rng.random() < 0.35:
        op = rng.choice(["and", "or", "not"])
        count = 1 if op == "not" else 2
        return Condition(op, parts=tuple(draw_condition(rng, columns, depth - 1) for _ in range(count)))
    column = rng.choice([column for column in columns if column.of.is_simple and column.kind != "binary"])
    values = tuple(v for v in column.of.values if not isinstance(v, float) or abs(v) < 1e9)
    if column.kind == "boolean":
        return Condition(rng.choice(["=", "<>", "is null", "is not null"]), column, (rng.choice(values),))
    ops = ["=", "<", "<=", ">", ">=", "<>", "in", "not in", "between", "is null", "is not null"]
    if column.kind in ("string", "varchar(4)", "varchar(9)"):
        ops.append("like")
    op = rng.choice(ops)
    if op == "like":
        return Condition(op, column, (rng.choice(["a%", "%b", "_", "%", "", "ab", "%a%", "b_c"]),))
    count = {"between": 2, "in": 3, "not in": 2, "is null": 0, "is not null": 0}.get(op, 1)
    return Condition(op, column, tuple(rng.choice(values[:7]) for _ in range(count)))
