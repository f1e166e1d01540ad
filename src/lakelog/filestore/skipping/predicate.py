"""Predicates over table columns: a picklable tree that prunes files and filters rows."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidRequest
from lakelog.paimon.rows.instants import instant_of

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITES: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class ColumnBounds:
    """Known bounds of a column in some rows; None means unknown."""

    low: Any = None
    high: Any = None
    null_count: int | None = None
    row_count: int | None = None

    @property
    def only_nulls(self) -> bool:
        """True if every row is NULL in this column."""
        return self.null_count is not None and self.null_count == self.row_count


Bounds = Mapping[str, ColumnBounds]
_UNKNOWN: Final = ColumnBounds()


class Predicate(ABC):
    """A condition on the columns of one row, with SQL's rules for NULL; a row matches only if it is true.

    A ``datetime`` without zone, compared with a column with zone, is local time, as everywhere in Python.
    """

    @property
    @abstractmethod
    def columns(self) -> frozenset[str]:
        """Names of the referenced columns."""

    @abstractmethod
    def may_match(self, bounds: Bounds) -> bool:
        """False only if no row within these bounds can match; columns without bounds are unknown."""

    @abstractmethod
    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        """The condition as an Arrow expression over columns of these types."""

    @abstractmethod
    def negated(self) -> Predicate:
        """The condition that is true exactly where this one is false (not where it is NULL)."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Predicate:
        """The same condition on columns with other names."""


@dataclass(frozen=True, init=False)
class _Compound(Predicate):
    parts: tuple[Predicate, ...]

    def __init__(self, *parts: Predicate) -> None:
        object.__setattr__(self, "parts", parts)

    @property
    def columns(self) -> frozenset[str]:
        return frozenset().union(*(p.columns for p in self.parts))

    def renamed(self, names: Mapping[str, str]) -> Predicate:
        return type(self)(*(p.renamed(names) for p in self.parts))


class And(_Compound):
    """True if all parts are true; always true without parts."""

    def may_match(self, bounds: Bounds) -> bool:
        return all(p.may_match(bounds) for p in self.parts)

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        return _joined(operator.and_, self.parts, schema, True)

    def negated(self) -> Predicate:
        return Or(*(p.negated() for p in self.parts))


class Or(_Compound):
    """True if some part is true."""

    def may_match(self, bounds: Bounds) -> bool:
        return any(p.may_match(bounds) for p in self.parts)

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        return _joined(operator.or_, self.parts, schema, False)

    def negated(self) -> Predicate:
        return And(*(p.negated() for p in self.parts))


@dataclass(frozen=True)
class Not(Predicate):
    """True if the part is false."""

    part: Predicate

    @property
    def columns(self) -> frozenset[str]:
        return self.part.columns

    def may_match(self, bounds: Bounds) -> bool:
        return isinstance(self.part, StartsWith) or self.part.negated().may_match(bounds)

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        if isinstance(self.part, StartsWith):
            return ~self.part.to_arrow(schema)
        return self.part.negated().to_arrow(schema)

    def negated(self) -> Predicate:
        return self.part

    def renamed(self, names: Mapping[str, str]) -> Predicate:
        return Not(self.part.renamed(names))


@dataclass(frozen=True)
class _OfColumn(Predicate):
    """A condition on one column."""

    column: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((self.column,))

    def renamed(self, names: Mapping[str, str]) -> Predicate:
        return replace(self, column=names.get(self.column, self.column))


@dataclass(frozen=True)
class Compare(_OfColumn):
    """``column op value``; ``op`` is one of ``= != < <= > >=``. A value of None matches no row.

    NaN equals NaN and is above all numbers, as in the format and in SQL engines. ``width`` is the length of a CHAR
    column: its texts are compared as if blanks filled them up to it, and the value has that length.
    """

    op: str
    value: Any
    width: int | None = None

    def __post_init__(self) -> None:
        if self.op not in _OPERATORS:
            raise InvalidRequest(f"unknown operator '{self.op}' on column '{self.column}': use {', '.join(_OPERATORS)}")

    def may_match(self, bounds: Bounds) -> bool:
        known = bounds.get(self.column, _UNKNOWN)
        if self.value is None or known.only_nulls:
            return False
        # a text without its blanks is a lower bound of the text with them
        high = known.high.ljust(self.width) if self.width and isinstance(known.high, str) else known.high
        low, high = _order(known.low, self.value), _order(high, self.value)
        if self.op == "=":
            return low not in (1,) and high not in (-1,)
        if self.op == "!=":
            return not (low == 0 and high == 0)
        if self.op in ("<", "<="):
            return low is None or low < 0 or (low == 0 and self.op == "<=")
        return high is None or high > 0 or (high == 0 and self.op == ">=")

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        if self.value is None:
            return pc.scalar(False)
        kind = _type_of(self.column, schema)
        if kind is not None and pa.types.is_floating(kind):
            return self._with_nan(literal(self.value, kind))
        return _OPERATORS[self.op](_text_field(self.column, self.width), literal(self.value, kind))

    def _with_nan(self, value: pa.Scalar) -> pc.Expression:
        # in Arrow NaN equals nothing, and is missing from the statistics by which it skips parts of a file
        field, is_nan = pc.field(self.column), pc.is_nan(pc.field(self.column))
        if _is_nan(self.value):
            return {"=": is_nan, ">=": is_nan, "!=": ~is_nan, "<": ~is_nan}.get(
                self.op, field.is_valid() & pc.scalar(self.op == "<=")
            )
        matches = _OPERATORS[self.op](field, value)
        return matches | is_nan if self.op in ("!=", ">", ">=") else matches

    def negated(self) -> Predicate:
        return replace(self, op=_OPPOSITES[self.op])


@dataclass(frozen=True)
class In(_OfColumn):
    """True if the column has one of the values; a value of None matches no row. ``width`` is that of ``Compare``."""

    values: tuple[Any, ...]
    width: int | None = None

    def may_match(self, bounds: Bounds) -> bool:
        return any(p.may_match(bounds) for p in self._equals())

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        kind = _type_of(self.column, schema)
        if (plain := _plain_values(self.values, kind)) is not None:
            return _text_field(self.column, self.width).isin(plain)
        literals = [literal(v, kind) for v in self.values if v is not None]
        if not literals:
            return pc.scalar(False)
        # in Arrow's sets NaN is missing, and zeros with another sign differ
        if {s.type for s in literals} == {kind} and not pa.types.is_floating(literals[0].type):
            return pc.field(self.column).isin(pa.array(literals, kind))
        return _joined(operator.or_, self._equals(), schema, False)

    def negated(self) -> Predicate:
        if None in self.values:
            return Or()
        return And(*(p.negated() for p in self._equals()))

    def _equals(self) -> tuple[Compare, ...]:
        return tuple(Compare(self.column, "=", v, self.width) for v in self.values if v is not None)


@dataclass(frozen=True)
class IsNull(_OfColumn):
    """True if the column is NULL (or, with ``expected`` false, is not)."""

    expected: bool = True

    def may_match(self, bounds: Bounds) -> bool:
        known = bounds.get(self.column, _UNKNOWN)
        return known.null_count != 0 if self.expected else not known.only_nulls

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        field = pc.field(self.column)
        return field.is_null() if self.expected else field.is_valid()

    def negated(self) -> Predicate:
        return replace(self, expected=not self.expected)


@dataclass(frozen=True)
class StartsWith(_OfColumn):
    """Text that begins with ``prefix``; ``width`` is that of ``Compare``."""

    prefix: str
    width: int | None = None

    def may_match(self, bounds: Bounds) -> bool:
        known = bounds.get(self.column, _UNKNOWN)
        if known.only_nulls:
            return False
        too_high = isinstance(known.low, str) and known.low[: len(self.prefix)] > self.prefix
        too_low = isinstance(known.high, str) and known.high.ljust(self.width or 0) < self.prefix
        return not (too_high or too_low)

    def to_arrow(self, schema: pa.Schema) -> pc.Expression:
        return pc.starts_with(_text_field(self.column, self.width), pattern=self.prefix)

    def negated(self) -> Predicate:
        return Not(self)


def conjunction(predicates: Iterable[Predicate]) -> Predicate | None:
    """The conjunction of the predicates; None without predicates."""
    parts = tuple(part for p in predicates for part in conjuncts(p))
    return None if not parts else parts[0] if len(parts) == 1 else And(*parts)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The top-level conjuncts of a predicate."""
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(part for p in predicate.parts for part in conjuncts(p))
    return (predicate,)


def restrict_to(predicate: Predicate | None, columns: Iterable[str]) -> Predicate | None:
    """The part of a predicate that needs only these columns."""
    known = frozenset(columns)
    return conjunction(p for p in conjuncts(predicate) if p.columns <= known)


def equal_values(predicate: Predicate | None, column: str) -> tuple[Any, ...] | None:
    """The possible values of a column in matching rows; None if unknown, as for texts that may lack their blanks."""
    for part in conjuncts(predicate):
        if isinstance(part, Compare) and part.column == column and part.op == "=" and part.width is None:
            return (part.value,)
        if isinstance(part, In) and part.column == column and part.width is None:
            return part.values
    return None


def _text_field(column: str, width: int | None) -> pc.Expression:
    return pc.field(column) if width is None else pc.utf8_rpad(pc.field(column), width, " ")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _order(bound: Any, value: Any) -> int | None:
    """-1, 0 or 1 if the bound is smaller, equal or larger; None if it is unknown or not comparable."""
    if isinstance(bound, datetime) and isinstance(value, datetime) and bound.tzinfo and not value.tzinfo:
        value = instant_of(value)
    # numpy compares a datetime64 with other types without an error
    if bound is None or isinstance(bound, np.datetime64) != isinstance(value, np.datetime64):
        return None
    try:
        return -1 if bound < value else 1 if bound > value else 0 if bound == value else None
    except TypeError:
        return None


def _joined(
    join: Callable[[Any, Any], Any], parts: Iterable[Predicate], schema: pa.Schema, empty: bool
) -> pc.Expression:
    level = [part.to_arrow(schema) for part in parts]
    while len(level) > 1:  # a tree of small depth, because Arrow evaluates it by recursion
        level = [join(*level[at : at + 2]) if at + 1 < len(level) else level[at] for at in range(0, len(level), 2)]
    return level[0] if level else pc.scalar(empty)


def _type_of(column: str, schema: pa.Schema) -> pa.DataType | None:
    index = schema.get_field_index(column)
    return None if index < 0 else schema.field(index).type


def _plain_values(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array | None:
    """Integers or texts as an array of a column's type, for the many keys of a lookup; None if some may be no such."""
    of = set(map(type, values))
    if kind is None or not (of == {int} and pa.types.is_integer(kind) or of == {str} and pa.types.is_string(kind)):
        return None
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError):  # a number that the column cannot hold
        return None


def literal(value: Any, kind: pa.DataType | None) -> pa.Scalar:
    """The value as a scalar of a column's type, or of its own type if the column's cannot represent it exactly."""
    if kind is None:
        return pa.scalar(value)
    if isinstance(value, datetime) and value.tzinfo is None and pa.types.is_timestamp(kind) and kind.tz:
        value = instant_of(value)
    if isinstance(value, int) and pa.types.is_decimal(kind):
        value = Decimal(value)
    scalar = pa.scalar(value)
    if scalar.type == kind:
        return scalar
    try:
        cast = scalar.cast(kind)
        return cast if cast.cast(scalar.type) == scalar else scalar
    except pa.ArrowException:
        return scalar
