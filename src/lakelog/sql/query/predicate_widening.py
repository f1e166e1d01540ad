"""Comparisons of times, and of casts that keep the order of a column → comparisons of the column that are as wide or
wider, for skipping files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from sqlglot import exp

from lakelog.paimon.types.types import AtomicType, DataType
from lakelog.sql.syntax.literals import BITS

_OPERATORS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.LT: "<", exp.LTE: "<", exp.GT: ">", exp.GTE: ">",
}  # fmt: skip
_SWAPPED: Final = {"=": "=", "<": ">", ">": "<"}
_ZONES: Final = timedelta(hours=19)
"""No zone of Spark is further from UTC: a time without one means the session's, which is not known here."""
_DAY: Final = timedelta(days=1)
_TIMES: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_EXACT: Final = 1 << 53
"""Up to here every whole number has a double of its own."""
_TYPE: Final = exp.DType
_DATE_TYPES: Final = frozenset({_TYPE.DATE, _TYPE.DATE32})
_TIME_TYPES: Final = frozenset({_TYPE.TIMESTAMP, _TYPE.TIMESTAMPTZ, _TYPE.TIMESTAMPLTZ, _TYPE.TIMESTAMPNTZ})
_WIDTHS: Final = {**{_TYPE[root]: bits for root, bits in BITS.items()}, _TYPE.DOUBLE: 64}
"""Casts of whole numbers of at most so many bits keep their order."""


@dataclass(frozen=True)
class _Moments:
    """The first and the last moment that a literal may mean, as UTC."""

    first: datetime
    last: datetime


def widen_comparison(node: exp.Expr, types: Mapping[str, DataType]) -> exp.Expr | None:
    """What a comparison of one column says of the column itself, or a little more; None where nothing is known.

    ``types`` are by lower-case name. Called for conditions that are not negated: rows that meet the comparison meet the
    answer. Its literals are text for ``parse_filter``.
    """
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        parts = [_compared(node.this, sign, node.args[end], types) for sign, end in ((">", "low"), ("<", "high"))]
        return None if None in parts else exp.paren(exp.and_(*(part for part in parts if part is not None)))
    if isinstance(node, exp.In) and node.expressions:
        parts = [_compared(node.this, "=", value, types) for value in node.expressions]
        return None if None in parts else exp.paren(exp.or_(*(part for part in parts if part is not None)))
    sign = _OPERATORS.get(type(node))
    if sign is None:
        return None
    found = _compared(node.this, sign, node.expression, types)
    return found or _compared(node.expression, _SWAPPED[sign], node.this, types)


def _compared(side: exp.Expr, sign: str, literal: exp.Expr, types: Mapping[str, DataType]) -> exp.Expr | None:
    column = side.find(exp.Column)
    kind = None if column is None else types.get(column.name.lower())
    if column is None or not isinstance(kind, AtomicType):
        return None
    cast = _cast_of(side, column)
    if kind.root in BITS:
        return _of_number(column, kind.root, cast, sign, literal)
    if kind.root not in (*_TIMES, "DATE") or cast not in (None, *_DATE_TYPES, *_TIME_TYPES):
        return None
    if (kind.root == "DATE") == (cast not in _TIME_TYPES):
        return None  # the column's own type, which needs no widening
    moments = _moments(literal, cast in _DATE_TYPES, zones=kind.root == "TIMESTAMP_LTZ" and cast is None)
    if moments is None:
        return None
    return _of_moments(column, kind.root, moments, sign)


def _cast_of(side: exp.Expr, column: exp.Expr) -> exp.DType | None:
    """What the side makes of the column: the type of a cast, None when it is the column; NULL's for anything else."""
    while isinstance(side, exp.Paren):
        side = side.this
    if side is column:
        return None
    inner = side.this
    if inner is not column:
        return _TYPE.NULL
    if isinstance(side, exp.Cast):
        return side.to.this if not side.to.expressions else _TYPE.NULL
    return _TYPE.DATE if isinstance(side, exp.TsOrDsToDate) and not side.args.get("format") else _TYPE.NULL


def _of_number(column: exp.Column, root: str, cast: exp.DType | None, sign: str, literal: exp.Expr) -> exp.Expr | None:
    number = literal.this if isinstance(literal, exp.Neg) else literal
    if cast is None or _WIDTHS.get(cast, 0) < BITS[root]:
        return None
    if not isinstance(number, exp.Literal) or not number.is_int or int(number.this) >= _EXACT:
        return None
    made = {"=": exp.EQ, "<": exp.LTE, ">": exp.GTE}[sign]
    return made(this=column.copy(), expression=literal.copy())


def _moments(literal: exp.Expr, by_day: bool, zones: bool) -> _Moments | None:
    """What a literal may mean; None for one with a zone where ``zones`` says that Spark may take it for another moment:
    days and times without a zone leave it out."""
    while isinstance(literal, exp.Paren | exp.Cast):
        if isinstance(literal, exp.Cast):
            by_day |= literal.to.this in _DATE_TYPES
        literal = literal.this
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    try:
        found = datetime.fromisoformat(literal.this.strip())
        if found.tzinfo is not None:
            if by_day or not zones:
                return None
            found = found.astimezone(UTC).replace(tzinfo=None)
        if by_day:
            found = datetime.combine(found.date(), time())
        return _Moments(found - _ZONES, found + _ZONES + (_DAY if by_day else timedelta()))
    except (ValueError, OverflowError):
        return None


def _of_moments(column: exp.Column, root: str, moments: _Moments, sign: str) -> exp.Expr:
    bounds: list[exp.Expr] = []
    if sign in ("=", ">"):
        bounds.append(exp.GTE(this=column.copy(), expression=_text(moments.first, root)))
    if sign in ("=", "<"):
        bounds.append(exp.LTE(this=column.copy(), expression=_text(moments.last, root)))
    return exp.paren(exp.and_(*bounds))


def _text(moment: datetime, root: str) -> exp.Expr:
    if root == "DATE":
        day: date = moment.date()
        return exp.Literal.string(day.isoformat())
    zone = "+00:00" if root == "TIMESTAMP_LTZ" else ""
    return exp.Literal.string(moment.isoformat(sep=" ") + zone)
