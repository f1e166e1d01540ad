"""Spark's SQL in the words of DuckDB: only what has the same results there.

Everything else raises NeedsSpark, which says why; Spark then computes the rows of the view.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.schema import MappingSchema

from lakelog.sql.views.query import ViewQuery, source_types

_PLAIN: Final = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Table, exp.TableAlias, exp.Alias, exp.Column,
    exp.Identifier, exp.Star, exp.Paren, exp.Literal, exp.Boolean, exp.Null, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ,
    exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Exists,
    exp.Subquery, exp.With, exp.CTE, exp.Union, exp.Except, exp.Intersect, exp.Distinct, exp.Tuple, exp.Add, exp.Sub,
    exp.Mul, exp.Neg, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Filter, exp.Count,
    exp.Min, exp.Max, exp.Abs, exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.Qualify, exp.Var, exp.DataType,
    exp.DataTypeParam,
)  # fmt: skip
"""Nodes with the same meaning in both, whatever the types of their parts."""
_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_DECIMAL: Final = 38
_SUM_DIGITS: Final = 10
"""Digits that the sum of a DECIMAL has more than its values (Spark)."""


class NeedsSpark(Exception):
    """A query has a part whose meaning DuckDB may not share; the text says which."""


def local_query(query: ViewQuery, tree: exp.Query) -> str:
    """The text of a query over the sources for DuckDB. Raises NeedsSpark."""
    types = MappingSchema(source_types(query.sources), dialect="spark")
    typed = annotate_types(tree.copy(), schema=types, dialect="spark")
    for node in list(typed.walk()):
        _translate(node)
    return str(typed.sql(dialect="duckdb", identify=True))


def _translate(node: exp.Expr) -> None:
    """Checks a node, and replaces it where the words or the type of the result differ."""
    kind = _kind(node.args.get("this"))
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Abs):
        _check_arithmetic(node, kind)
    elif isinstance(node, exp.Sum):
        _cast(node, _type_of_sum(node, kind))
    elif isinstance(node, exp.Avg):
        if kind not in (*_WHOLE, "DOUBLE", "FLOAT"):
            raise NeedsSpark(f"avg of {kind or 'an expression'}")
    elif isinstance(node, exp.Like):
        if not isinstance(node.expression, exp.Literal) or "\\" in node.expression.name:
            raise NeedsSpark("LIKE with an escape")
    elif isinstance(node, exp.DPipe | exp.Concat):
        _check_texts(node)
    elif isinstance(node, exp.Div):
        _check_division(node, kind)
    elif isinstance(node, exp.Cast):
        _check_cast(node, kind)
    elif isinstance(node, exp.TimestampTrunc):
        _check_truncation(node, kind)
    elif isinstance(node, exp.RowNumber | exp.Rank | exp.DenseRank | exp.Length):
        _cast(node, "INT")
    elif isinstance(node, exp.AnyValue):
        node.replace(exp.Min(this=node.this))  # any value of a group is right; this one does not change by itself
    elif not isinstance(node, _PLAIN):
        raise NeedsSpark(f"{node.name or node.key}()" if isinstance(node, exp.Func) else node.key)


def _cast(node: exp.Expr, wanted: str) -> None:
    """Puts a cast around a function, with its FILTER and OVER."""
    while isinstance(node.parent, exp.Filter | exp.Window) and node.parent.this is node:
        node = node.parent
    place = exp.Cast(to=exp.DataType.build(wanted))
    node.replace(place)
    place.set("this", node)
    place.set("own", True)


def _check_arithmetic(node: exp.Expr, kind: str) -> None:
    kinds = [kind, *([_kind(node.expression)] if isinstance(node, exp.Binary) else [])]
    if not all(one in ("INT", "BIGINT", "DOUBLE", "DECIMAL") for one in kinds):
        raise NeedsSpark(f"{node.key} of {', '.join(one or 'an expression' for one in kinds)}")
    if isinstance(node, exp.Mul) and "DECIMAL" in kinds:
        raise NeedsSpark("a product of decimals")


def _check_truncation(node: exp.TimestampTrunc, kind: str) -> None:
    unit = node.args.get("unit")
    if unit is None or unit.name.upper() not in _UNITS or kind not in ("TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"):
        raise NeedsSpark(f"date_trunc of {kind or 'an expression'}")
    if kind == "TIMESTAMPNTZ":  # Spark takes it as a time of the session, and returns an instant
        place = exp.Cast(to=exp.DataType.build("TIMESTAMPTZ"), own=True)
        inner = node.this
        inner.replace(place)
        place.set("this", inner)


def _kind(node: object) -> str:
    """The name of the type of an expression, "" if it is not known."""
    return node.type.this.name if isinstance(node, exp.Expr) and node.type is not None else ""


def _type_of_sum(node: exp.Sum, kind: str) -> str:
    """Spark's type of a sum."""
    if kind in _WHOLE:
        return "BIGINT"
    if kind in ("DOUBLE", "FLOAT"):
        return "DOUBLE"
    if kind == "DECIMAL" and (parts := _digits(node.this)):
        return f"DECIMAL({min(_DECIMAL, parts[0] + _SUM_DIGITS)}, {parts[1]})"
    raise NeedsSpark(f"sum of {kind or 'an expression'}")


def _digits(node: exp.Expr) -> tuple[int, int] | None:
    """Precision and scale of a decimal column."""
    if not isinstance(node.unnest(), exp.Column) or node.type is None:
        return None
    parts = [int(part.name) for part in node.type.expressions]
    return (parts[0], parts[1]) if len(parts) == 2 else None


def _check_texts(node: exp.Expr) -> None:
    parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
    if any(_kind(part) not in ("TEXT", "VARCHAR", "CHAR") for part in parts):
        raise NeedsSpark("concat of other types than STRING")


def _check_division(node: exp.Div, kind: str) -> None:
    """Accepts a division of numbers that are no decimals by a number that is not 0."""
    divisor = node.expression.unnest()
    is_number = isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.name) != 0
    if not is_number or "." in divisor.name or kind not in (*_WHOLE, "DOUBLE"):
        raise NeedsSpark("a division that may fail or has decimals")


def _check_cast(node: exp.Cast, kind: str) -> None:
    if node.args.get("own"):
        return
    wanted = node.to.this.name
    if wanted in _WHOLE and kind in _WHOLE:
        return
    if wanted in ("TEXT", "VARCHAR") and kind in (*_WHOLE, "TEXT", "VARCHAR", "DATE"):
        return
    if wanted == "DOUBLE" and kind in (*_WHOLE, "FLOAT", "DOUBLE"):
        return
    if isinstance(node.this, exp.Literal) and wanted in ("DATE", "TIMESTAMPNTZ"):
        return
    raise NeedsSpark(f"a cast of {kind or 'an expression'} to {wanted}")
