"""Reference implementation of merge engines and aggregate functions, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

SKIP, ADD, ADD_REVERSED, RETRACT, SET = range(5)
RANGES = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
Options = Mapping[str, str]


class NoResult(Exception):
    """The rows have no result, so the merge must raise an error."""


class TooLarge(NoResult):
    """A number does not fit, or does not exist: the result is NULL until the accumulator is set."""


class Accumulator:
    """One column of one key. ``kind`` is the type as the schema writes it, ``options`` those of the column."""

    def __init__(self, function: str, kind: str, options: Options) -> None:
        self.function, self.kind, self.options = function, kind, options
        self.value: Any = None
        self.is_fixed = self.is_set = False
        self.is_broken = False

    def step(self, op: int, value: Any) -> None:
        try:
            if op == SET or not self.is_broken:
                self.is_broken = False
                self._step(op, value)
        except TooLarge:
            self.is_broken = True

    def result(self) -> Any:
        if self.is_broken or (self.function in ("sum", "product") and self.value is not None and not self._fits()):
            return None
        return self.value

    def _fits(self) -> bool:
        if self.kind in RANGES:
            return -(1 << RANGES[self.kind]) <= self.value < 1 << RANGES[self.kind]
        precision = int(self.kind[8:-1].split(",")[0]) if isinstance(self.value, Decimal) else None
        return precision is None or len(self.value.as_tuple().digits) <= precision

    def _step(self, op: int, value: Any) -> None:
        if op == SET:
            self.value, self.is_fixed, self.is_set = value, False, True
            return
        if self.function.startswith("first_") and self.is_set and op in (ADD, ADD_REVERSED):
            self.value = None
        self.is_set &= op == SKIP
        if op == ADD:
            self.value = self._add(self.value, value)
        elif op == ADD_REVERSED:
            self._add_older(value)
        elif op == RETRACT and self.options.get("ignore-retract") != "true":
            self.value = self._retract(self.value, value)

    def _add_older(self, value: Any) -> None:
        if self.function.startswith("first_"):
            if self.function == "first_value" or value is not None:
                self.value, self.is_fixed = value, True
        else:
            old, new = (self.value, value) if self.function == "collect" else (value, self.value)
            self.value = self._add(old, new)

    def _add(self, held: Any, value: Any) -> Any:
        name = self.function
        if name in ("last_value", "primary-key"):
            return value
        if name == "last_non_null_value":
            return held if value is None else value
        if name.startswith("first_"):
            if not self.is_fixed and (name == "first_value" or value is not None):
                self.is_fixed = True
                return value
            return held
        if name in NESTED:
            return NESTED[name][0](held, value, self.options)
        if name == "listagg":
            return joined(held, value, self.options)
        if held is None or value is None:
            return value if held is None else held
        if name in ("max", "min"):
            best = max if name == "max" else min
            return best(held, value, key=total_order)
        if name in ("bool_and", "bool_or"):
            return held and value if name == "bool_and" else held or value
        return self._number(plus(held, value) if name == "sum" else times(held, value))

    def _retract(self, held: Any, value: Any) -> Any:
        name = self.function
        if name == "last_value":
            return None
        if name == "primary-key":
            return value
        if name == "last_non_null_value":
            return held if value is None else None
        if name in NESTED:
            return NESTED[name][1](held, value, self.options)
        if name == "sum":
            if value is None:
                return held
            taken = WIDE.minus(value) if isinstance(value, Decimal) else -value  # a decimal has no -0
            return self._number(taken if held is None else plus(held, taken))
        if name == "product":
            return held if held is None or value is None else self._number(self._divided(held, value))
        raise NoResult(f"{name} takes nothing back")

    def _divided(self, held: Any, value: Any) -> Any:
        if isinstance(held, np.floating):
            with np.errstate(all="ignore"):
                return held / value
        if value == 0:
            raise TooLarge("division by 0")
        if isinstance(held, Decimal):
            left = (Fraction(held) / Fraction(value)).denominator
            for prime in (2, 5):
                while left % prime == 0:
                    left //= prime
            if left != 1:
                raise TooLarge("no exact result")
            return WIDE.divide(held, value)
        whole = abs(held) // abs(value)
        return whole if (held < 0) == (value < 0) else -whole

    def _number(self, value: Any) -> Any:
        if self.function == "product" and self.kind in RANGES:
            if not -(1 << RANGES[self.kind]) <= value < 1 << RANGES[self.kind]:
                raise TooLarge("overflow")
        elif isinstance(value, Decimal):
            value = WIDE.quantize(value, Decimal(1).scaleb(-int(self.kind[8:-1].split(",")[1])))
        return value


def plus(held: Any, value: Any) -> Any:
    if isinstance(held, Decimal):
        return WIDE.add(held, value)
    with np.errstate(all="ignore"):
        return held + value


def times(held: Any, value: Any) -> Any:
    if isinstance(held, Decimal):
        return WIDE.multiply(held, value)
    with np.errstate(all="ignore"):
        return held * value


def total_order(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return (value != value, float(value), not np.signbit(value))
    return value.encode() if isinstance(value, str) else value


def joined(held: str | None, value: str | None, options: Options) -> str | None:
    between = options.get("list-agg-delimiter", ",")
    if held is None or value is None:
        return value if held is None else held
    if "" in (held, value):
        return held + value
    if options.get("distinct") != "true":
        return held + between + value
    for part in value.split(between):
        if part != "" and part not in held.split(between):
            held = held + between + part
    return held


def collected(held: Any, value: Any, options: Options) -> Any:
    if held is None and value is None:
        return None
    everything = [*(held or []), *(value or [])]
    if options.get("distinct") != "true":
        return everything
    return [e for at, e in enumerate(everything) if e not in everything[:at]]


def collected_without(held: Any, value: Any, _: Options) -> Any:
    if held is None or not value:
        return held
    rest, out = list(value), []
    for element in held:
        if element in rest:
            rest.remove(element)
        else:
            out.append(element)
    return out


def maps_merged(held: Any, value: Any, _: Options) -> Any:
    if held is None or value is None:
        return value if held is None else held
    return list((dict(held) | dict(value)).items())


def map_without(held: Any, value: Any, _: Options) -> Any:
    if held is None or not value:
        return held
    return [(k, v) for k, v in held if k not in dict(value)]


def nested_updated(held: Any, value: Any, options: Options) -> Any:
    if value is None:
        return held
    keys = [k for k in options.get("nested-key", "").split(",") if k]
    ages = [k for k in options.get("nested-sequence-field", "").split(",") if k]
    limit = int(options.get("count-limit", "1000"))
    rows = [] if keys else list(held or [])
    old_rows = (held or []) if keys else []
    for at_most, row in [*((10**6, r) for r in old_rows), *((limit, r) for r in value)]:
        same = [at for at, other in enumerate(rows) if keys and all(other[k] == row[k] for k in keys)]
        if same:
            old = rows[same[0]]
            if all(row[a] is not None for a in ages) or not ages or all(old[a] is None for a in ages):
                newer = [tuple((r[a] is not None, r[a] or 0) for a in ages) for r in (row, old)]
                if newer[0] >= newer[1]:
                    rows[same[0]] = row
        elif len(rows) < at_most:
            rows.append(row)
    return rows


def nested_without(held: Any, value: Any, options: Options) -> Any:
    if held is None or value is None:
        return held
    keys = [k for k in options.get("nested-key", "").split(",") if k] or ["id", "age", "text"]
    return [row for row in held if not any(all(row[k] == out[k] for k in keys) for out in value)]


NESTED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "collect": (collected, collected_without),
    "merge_map": (maps_merged, map_without),
    "nested_update": (nested_updated, nested_without),
}


@dataclass(frozen=True)
class Row:
    """A row of one key."""

    number: int
    kind: int
    values: dict[str, Any]

    @property
    def is_retract(self) -> bool:
        return self.kind in (1, 3)


@dataclass(frozen=True)
class Table:
    """The merge rules of a table: its columns (name → type), their functions, and its options."""

    engine: str
    columns: dict[str, str]
    functions: dict[str, str] = field(default_factory=dict)
    groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    flags: frozenset[str] = frozenset()
    remove_on: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()

    def age(self, row: Row) -> tuple[Any, ...]:
        sign = -1 if "descending" in self.flags else 1
        values = [row.values[name] for name in self.sequence]
        return (*((v is not None, sign * (v or 0)) for v in values), row.number)

    def fold(self, rows: Sequence[Row]) -> Row | None:
        rows = sorted(rows, key=self.age)
        if self.engine == "deduplicate":
            kept = [r for r in rows if not ("ignore-delete" in self.flags and r.is_retract)]
            return kept[-1] if kept else None
        if len(rows) == 1:
            return rows[0]
        if self.engine == "first-row":
            if any(r.is_retract for r in rows) and "ignore-delete" not in self.flags:
                raise NoResult("first-row takes no deletes")
            return next((r for r in rows if not r.is_retract), None)
        return self._aggregated(rows) if self.engine == "aggregation" else self._updated(rows)

    def _accumulators(self) -> dict[str, Accumulator]:
        options = {"ignore-retract": "true"} if "ignore-retract" in self.flags else {}
        default = "last_non_null_value"
        functions = {name: self.functions.get(name, default) for name in self.columns}
        functions |= {name: "primary-key" for name in self.sequence if self.engine == "aggregation"}
        return {
            name: Accumulator(functions[name], kind, options if name in self.functions else {})
            for name, kind in self.columns.items()
        }

    def _aggregated(self, rows: Sequence[Row]) -> Row:
        held = self._accumulators()
        lives = self._lives(rows) if "remove" in self.flags else rows
        if not lives:
            return Row(rows[-1].number, 3, rows[-1].values)
        for row in lives:
            for name, accumulator in held.items():
                accumulator.step(RETRACT if row.is_retract else ADD, row.values[name])
        return Row(rows[-1].number, 0, {name: a.result() for name, a in held.items()})

    @staticmethod
    def _lives(rows: Sequence[Row]) -> Sequence[Row]:
        """The rows since the first insertion after the last -D."""
        last = max((at for at, row in enumerate(rows) if row.kind == 3), default=-1)
        first = (at for at, row in enumerate(rows) if at > last and not row.is_retract)
        return rows[next(first, len(rows)) :]

    def _updated(self, rows: Sequence[Row]) -> Row:
        held = self._accumulators()
        if "remove" in self.flags:
            lives = self._lives(rows)
            for row in [r for r in lives if not r.is_retract]:
                self._update(held, row)
            values = {name: a.result() for name, a in held.items()} if lives else rows[-1].values
            return Row(rows[-1].number, 0 if lives else 3, values)
        number, deleted, has_insert, begun = 0, False, False, False
        for row in rows:
            deleted = False
            if row.is_retract and not begun:
                self._set(held, row)
            begun = True
            if row.is_retract and "ignore-delete" in self.flags:
                continue
            number = row.number
            if row.is_retract and not self.groups:
                raise NoResult("partial-update takes no deletes")
            if row.is_retract and row.kind == 3 and self._removes(held, row):
                deleted = True
                self._set(held, row)
                continue
            self._update(held, row)
            has_insert |= not row.is_retract
        kind = 3 if deleted or not has_insert else 0
        return Row(number, kind, {name: a.result() for name, a in held.items()})

    @staticmethod
    def _set(held: dict[str, Accumulator], row: Row) -> None:
        for name, accumulator in held.items():
            accumulator.step(SET, row.values[name])

    @staticmethod
    def _is_newer(held: dict[str, Accumulator], row: Row, fields: Sequence[str]) -> bool | None:
        """None: the row says nothing about the group."""
        new = [row.values[name] for name in fields]
        if all(v is None for v in new):
            return None
        old = [held[name].value for name in fields]
        return [(v is not None, v or 0) for v in new] >= [(v is not None, v or 0) for v in old]

    def _removes(self, held: dict[str, Accumulator], row: Row) -> bool:
        return any(self._is_newer(held, row, fields) for fields, _ in self.groups if set(fields) & set(self.remove_on))

    def _update(self, held: dict[str, Accumulator], row: Row) -> None:
        grouped = set()
        for fields, updated in self.groups:
            grouped |= {*fields, *updated}
            newer = self._is_newer(held, row, fields)
            if newer is None:
                continue
            for name in updated:
                if name in self.functions:
                    op = RETRACT if row.is_retract else ADD if newer else ADD_REVERSED
                    held[name].step(op, row.values[name])
                elif newer:
                    held[name].step(SET, None if row.is_retract else row.values[name])
            if newer:
                for name in fields:
                    held[name].step(SET, row.values[name])
        for name, accumulator in held.items():
            if name not in grouped and not row.is_retract:
                accumulator.step(ADD, row.values[name])


class Longest(Table):
    """The row with the longest ``name``, of equal ones the newest."""

    def fold(self, rows: Sequence[Row]) -> Row | None:
        return max(rows, key=lambda row: (-1 if row.values["name"] is None else len(row.values["name"]), row.number))


class LastNonNull(Table):
    """The newest value of each column that is not NULL."""

    def fold(self, rows: Sequence[Row]) -> Row | None:
        rows = sorted(rows, key=self.age)
        values = {name: [row.values[name] for row in rows if row.values[name] is not None] for name in self.columns}
        return Row(rows[-1].number, rows[-1].kind, {name: held[-1] if held else None for name, held in values.items()})


class Latest(Table):
    """The newest row."""

    def fold(self, rows: Sequence[Row]) -> Row | None:
        return max(rows, key=self.age)


FOLDS: dict[str, type[Table]] = {
    **dict.fromkeys(("deduplicate", "partial-update", "aggregation", "first-row"), Table),
    "longest": Longest,
    "last-non-null": LastNonNull,
    "latest": Latest,
}
"""Registered merge engine, also of the other package → its words. The property tests take their engines from here."""


def plain_table(engine: str) -> Table:
    """A table of an engine without options."""
    return FOLDS[engine](engine, {"v": "INT", "name": "STRING"})
