"""Predicate pushdown: conditions of a query that a table read applies to skip partitions, buckets and files.

Spark can push filters to a Python source. But rows that one action has filtered stay filtered for the next action on
the same DataFrame (seen with 4.2 and 4.3, which keep the pruned read with the relation). So lakelog extracts the
conditions from the text. Spark still applies all of them, so a missing condition costs time, never rows.

Comparisons of times, and of order-preserving casts of a column, become equal or wider comparisons of the column, for
skipping files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from sqlglot import exp

from lakelog.errors import LakelogError
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.syntax.literals import BITS

_SIMPLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like)
_PARTS = (
    exp.And, exp.Or, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Neg, exp.Cast, exp.DataType,
    exp.Boolean,
)  # fmt: skip
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_TEXTS = frozenset({"VARCHAR", "CHAR"})
_OPERATORS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.LT: "<", exp.LTE: "<", exp.GT: ">", exp.GTE: ">",
}  # fmt: skip
_SWAPPED: Final = {"=": "=", "<": ">", ">": "<"}
_ZONES: Final = timedelta(hours=19)
"""Maximum offset of a Spark zone from UTC, for times in the unknown zone of the session."""
_DAY: Final = timedelta(days=1)
_TIMES: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
_EXACT: Final = 1 << 53
"""Limit up to which doubles represent every integer exactly."""
_TYPE: Final = exp.DType
_DATE_TYPES: Final = frozenset({_TYPE.DATE, _TYPE.DATE32})
_TIME_TYPES: Final = frozenset({_TYPE.TIMESTAMP, _TYPE.TIMESTAMPTZ, _TYPE.TIMESTAMPLTZ, _TYPE.TIMESTAMPNTZ})
_WIDTHS: Final = {**{_TYPE[root]: bits for root, bits in BITS.items()}, _TYPE.DOUBLE: 64}
"""Bits of the types to which casts of integers preserve their order."""


def pushed_predicate(relation: exp.Table, schema: TableSchema) -> str | None:
    """The WHERE conjuncts of the relation's SELECT that use only its columns, as text for ``parse_filter``.

    Includes only conditions that NULL never satisfies, so they can be pushed below an outer join. None without any.
    """
    alias = relation.args.get("alias")
    if relation.args.get("pivots") or relation.args.get("sample") or (alias is not None and alias.args.get("columns")):
        return None  # names do not refer to the table's columns, or rows are selected before the condition
    select = relation.find_ancestor(exp.Select)
    if not isinstance(select, exp.Select) or not isinstance(where := select.args.get("where"), exp.Where):
        return None
    alone = not select.args.get("joins") and not select.args.get("laterals")
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    texts = [text for part in parts if (text := _text(part, relation, schema, alone)) is not None]
    return " AND ".join(texts) or None


def _text(part: exp.Expr, relation: exp.Table, schema: TableSchema, alone: bool) -> str | None:
    types = {f.name.lower(): f.type for f in schema.fields}
    padded = {name.lower() for name in schema.padded_columns}
    for column in part.find_all(exp.Column):
        qualified = column.table.lower() == relation.alias_or_name.lower() and not column.args.get("db")
        if not (qualified or (alone and not column.table)) or column.name.lower() not in types:
            return None
        if column.name.lower() in padded:
            return None  # Spark pads both sides of a comparison
    bare = _bare(part, types)
    if bare is None or not all(isinstance(node, (*_SIMPLE, *_PARTS)) for node in bare.walk()):
        return None
    text = f"({bare.sql(dialect='spark')})"
    try:
        parse_filter(text, schema)
    except LakelogError:
        return None
    return text


def _bare(part: exp.Expr, types: Mapping[str, DataType]) -> exp.Expr | None:
    """The condition with unqualified columns, and only with comparisons of the same meaning as in Spark.

    None for a comparison with another meaning.
    """
    root = exp.Paren(this=part.copy())
    for column in root.find_all(exp.Column):
        column.set("table", None)
    for node in list(root.find_all(*_SIMPLE)):
        columns = list(node.find_all(exp.Column))
        if len({c.name.lower() for c in columns}) != 1:
            return None
        wide = widen_comparison(node, types) if len(columns) == 1 else None
        if wide is not None:
            node.replace(wide)
        elif not _literals_fit(node, types[columns[0].name.lower()]):
            return None
    inside: exp.Expr = root.this
    return inside


def _literals_fit(node: exp.Expr, kind: DataType) -> bool:
    """Returns whether Spark compares without a cast of the column."""
    root = kind.root if isinstance(kind, AtomicType) else ""
    if node.find(exp.Cast) and root != "DATE":
        return False
    if root in ("FLOAT", "DOUBLE") and not isinstance(node, exp.EQ | exp.In):
        return False  # in Spark NaN is larger than every number
    if node.find(exp.Boolean):
        return root == "BOOLEAN"
    exact = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}.get(root)
    for literal in node.find_all(exp.Literal):
        if exact is not None and not literal.is_string and abs(Decimal(literal.this)) > exact:
            return False  # Spark may round it to the column's type
        fits = root in (*_TEXTS, "DATE") if literal.is_string else root in _NUMBERS
        if not fits or (not literal.is_string and root not in ("FLOAT", "DOUBLE", "DECIMAL") and not literal.is_int):
            return False
    return True


@dataclass(frozen=True)
class _Moments:
    """The first and the last possible instant of a literal, in UTC."""

    first: datetime
    last: datetime


def widen_comparison(node: exp.Expr, types: Mapping[str, DataType]) -> exp.Expr | None:
    """An equal or wider comparison of the bare column; None if there is none.

    ``types`` are by lower-case name. Called for conditions that are not negated: all rows that match the comparison
    match the result. Its literals are text for ``parse_filter``.
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
    predicate = _compared(node.this, sign, node.expression, types)
    return predicate or _compared(node.expression, _SWAPPED[sign], node.this, types)


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
    """The cast type of a side with the column; None for the bare column, NULL's type for anything else."""
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
    kind = {"=": exp.EQ, "<": exp.LTE, ">": exp.GTE}[sign]
    return kind(this=column.copy(), expression=literal.copy())


def _moments(literal: exp.Expr, by_day: bool, zones: bool) -> _Moments | None:
    """The possible instants of a literal; None if it has a zone and ``zones`` says that Spark may ignore the zone, as
    for days and times without a zone."""
    while isinstance(literal, exp.Paren | exp.Cast):
        if isinstance(literal, exp.Cast):
            by_day |= literal.to.this in _DATE_TYPES
        literal = literal.this
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    try:
        moment = datetime.fromisoformat(literal.this.strip())
        if moment.tzinfo is not None:
            if by_day or not zones:
                return None
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        if by_day:
            moment = datetime.combine(moment.date(), time())
        return _Moments(moment - _ZONES, moment + _ZONES + (_DAY if by_day else timedelta()))
    except (ValueError, OverflowError):
        return None


def _of_moments(column: exp.Column, root: str, moments: _Moments, sign: str) -> exp.Expr:
    bounds: list[exp.Expr] = []
    if sign in ("=", ">"):
        bounds.append(exp.GTE(this=column.copy(), expression=_widened_text(moments.first, root)))
    if sign in ("=", "<"):
        bounds.append(exp.LTE(this=column.copy(), expression=_widened_text(moments.last, root)))
    return exp.paren(exp.and_(*bounds))


def _widened_text(moment: datetime, root: str) -> exp.Expr:
    if root == "DATE":
        day: date = moment.date()
        return exp.Literal.string(day.isoformat())
    zone = "+00:00" if root == "TIMESTAMP_LTZ" else ""
    return exp.Literal.string(moment.isoformat(sep=" ") + zone)
