"""The expressions of Spark's SQL that DuckDB computes with the same result and type, in the words of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlglot import exp

from lakelog.sql.views.local.casts import (
    Part,
    align,
    call,
    cast_in_place,
    decimal_average,
    roomy,
    whole_call,
)  # fmt: skip
from lakelog.sql.views.local.scalars import DATE_PARTS, TIME_PARTS, Scalars
from lakelog.sql.views.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    OTHER,
    STRING,
    WHOLE,
    Kind,
    NeedsSpark,
    arithmetic_kind,
    decimal,
    literal_kind,
    sum_kind,
    unified,
)  # fmt: skip
from lakelog.table.views.local_functions import QUOTIENT


class Expressions(Scalars):
    """Checks and translates the expressions of one SELECT in place.

    ``relations`` are the columns that they may name; ``query`` returns the types of a subquery.
    """

    def __init__(
        self, relations: Mapping[str, Mapping[str, Kind]], query: Callable[[exp.Expr], Sequence[Kind]]
    ) -> None:
        self._relations, self._query = relations, query

    def kind(self, node: exp.Expr) -> Kind:
        """The type of an expression, which is translated. Raises NeedsSpark."""
        for kinds, method in _METHODS:
            if isinstance(node, kinds):
                return method(self, node)
        raise NeedsSpark(f"{node.name or node.key}()" if isinstance(node, exp.Func) else node.key)

    def column(self, node: exp.Column) -> Kind:
        known = self._relations.get(node.table.lower())
        if known is None:
            raise NeedsSpark(f"column {node.sql()}")
        try:
            return known[node.name.lower()]
        except KeyError:
            raise NeedsSpark(f"column {node.sql()}") from None

    def literal(self, node: exp.Literal) -> Kind:
        if node.is_string:
            return STRING
        kind = literal_kind(node.name)
        cast_in_place(node, kind)
        return kind

    def constant(self, node: exp.Expr) -> Kind:
        return BOOLEAN if isinstance(node, exp.Boolean) else NULL

    def negated(self, node: exp.Neg) -> Kind:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            kind = literal_kind(f"-{node.this.name}")
            cast_in_place(node, kind)
            return kind
        return self.absolute(node)

    def absolute(self, node: exp.Expr) -> Kind:
        return _need_number(self.kind(node.this), node)

    def inner(self, node: exp.Expr) -> Kind:
        return self.kind(node.this)

    def ordered(self, node: exp.Ordered) -> Kind:
        kind = self.kind(node.this)
        if kind == OTHER:
            raise NeedsSpark("an order of CHAR or nested values")
        return kind

    def condition(self, node: exp.Expr) -> Kind:
        """AND, OR, NOT and IS, whose parts decide nothing about its type."""
        for part in (node.this, node.args.get("expression")):
            if part is not None:
                kind = self.kind(part)
                if not isinstance(node, exp.Is) and kind not in (BOOLEAN, NULL):
                    raise NeedsSpark(f"{node.key} of {kind}")
        return BOOLEAN

    def comparison(self, node: exp.Expr) -> Kind:
        self._aligned([node.this, node.expression], node)
        return BOOLEAN

    def between(self, node: exp.Between) -> Kind:
        if node.args.get("symmetric"):
            raise NeedsSpark("between symmetric")
        self._aligned([node.this, node.args["low"], node.args["high"]], node, True)
        return BOOLEAN

    def is_in(self, node: exp.In) -> Kind:
        query = node.args.get("query")
        if query is None:
            self._aligned([node.this, *node.expressions], node)
            return BOOLEAN
        kinds = {self.kind(node.this), *self._query(query)} - {NULL}
        if OTHER in kinds or len(kinds) > 1 and not {kind.root for kind in kinds} <= set(WHOLE):
            raise NeedsSpark("in of " + ", ".join(sorted(map(str, kinds))))
        return BOOLEAN

    def exists(self, node: exp.Exists) -> Kind:
        self._query(node.this)
        return BOOLEAN

    def subquery(self, node: exp.Subquery) -> Kind:
        return self._query(node)[0]

    def coalesce(self, node: exp.Coalesce) -> Kind:
        return self._aligned([node.this, *node.expressions], node)

    def extreme(self, node: exp.Greatest | exp.Least) -> Kind:
        parts = self._parts([node.this, *node.expressions])
        if STRING in (kinds := {part.kind for part in parts} - {NULL}) and len(kinds) > 1:
            raise NeedsSpark(f"{node.key} of STRING and another type")
        kind = align(parts, node.key)
        node.replace(exp.Anonymous(this=node.key, expressions=[node.this, *node.expressions]))
        return kind

    def nullif(self, node: exp.Nullif) -> Kind:
        """The type is that of its first part, which is compared as that of a CASE is."""
        before = node.this.copy()
        kind = self._part(node.this).kind
        other = node.expression.copy()
        test = exp.EQ(this=before, expression=other)
        place = exp.Case(ifs=[exp.If(this=test, true=exp.Null())], default=node.this)
        self.comparison(test)
        node.replace(place)
        return kind

    def case(self, node: exp.Case) -> Kind:
        branches = node.args["ifs"]
        if node.this is not None:
            self._aligned([node.this, *(branch.this for branch in branches)], node, True)
        else:
            self._conditions([branch.this for branch in branches])
        default = node.args.get("default")
        return self._aligned([*(b.args["true"] for b in branches), *([] if default is None else [default])], node)

    def choice(self, node: exp.If) -> Kind:
        self._conditions([node.this])
        other = node.args.get("false")
        return self._aligned([node.args["true"], *([] if other is None else [other])], node)

    def _conditions(self, nodes: Sequence[exp.Expr]) -> None:
        for kind in self._kinds(nodes):
            if kind not in (BOOLEAN, NULL):
                raise NeedsSpark(f"case of {kind}")

    def arithmetic(self, node: exp.Binary) -> Kind:
        digits = [_digits_of(side) for side in (node.this, node.expression)]
        one, other = self._parts([node.this, node.expression])
        if isinstance(node, exp.Add) and one.kind == DATE and other.kind.root in WHOLE[:3]:
            return DATE
        kinds = [_need_number(part.kind, node) for part in (one, other)]
        if "DECIMAL" in (kinds[0].root, kinds[1].root):  # a whole number in the query has the digits that it has
            kinds = [decimal(n, 0) if n and k.root in WHOLE else k for n, k in zip(digits, kinds, strict=True)]
        kind = arithmetic_kind(node, *kinds)
        for part, kind_there in zip((one, other), kinds, strict=True):
            goal = roomy(kind_there.decimal, kind) if kind.root == "DECIMAL" else kind
            if part.kind != goal:
                cast_in_place(part.node, goal)
        cast_in_place(node, kind)
        return kind

    def division(self, node: exp.Div) -> Kind:
        kinds = self._kinds([node.this, node.expression])
        for kind in kinds:
            if kind.root not in (*WHOLE, "FLOAT", "DOUBLE"):
                raise NeedsSpark(f"div of {kind}")
        node.replace(call(QUOTIENT, node.this, node.expression))
        return DOUBLE

    def remainder(self, node: exp.Mod) -> Kind:
        divisor = node.expression.unnest()
        is_safe = isinstance(divisor, exp.Literal) and divisor.name.isdigit() and int(divisor.name)
        kinds = self._kinds([node.this, node.expression])
        if not is_safe or any(kind.root not in WHOLE for kind in kinds):
            raise NeedsSpark("a remainder that may fail")
        kind = unified(kinds, node.key)
        cast_in_place(node, kind)
        return kind

    def total(self, node: exp.Sum) -> Kind:
        kind = sum_kind(self._argument(node)[1])
        cast_in_place(whole_call(node), kind)
        return kind

    def average(self, node: exp.Avg) -> Kind:
        argument, kind = self._argument(node)
        if kind.root == "DECIMAL" and not isinstance(node.this, exp.Distinct):
            return decimal_average(node, kind)
        if kind.root not in (*WHOLE, "FLOAT", "DOUBLE"):
            raise NeedsSpark(f"avg of {kind}")
        cast_in_place(argument, DOUBLE)
        return DOUBLE

    def count(self, node: exp.Count) -> Kind:
        if node.expressions:
            raise NeedsSpark("count of several columns")
        if not isinstance(node.this, exp.Star):
            self._argument(node)
        return BIGINT

    def count_if(self, node: exp.CountIf) -> Kind:
        self._conditions([node.this])
        one = exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))])
        node.replace(exp.Count(this=one))
        return BIGINT

    def picked(self, node: exp.Expr) -> Kind:
        """MIN, MAX and ANY_VALUE: any value of a group is right, and the smallest does not change by itself."""
        kind = self._argument(node)[1]
        if kind in (OTHER, NULL):
            raise NeedsSpark(f"{node.key} of {kind}")
        if node.expressions:
            raise NeedsSpark(f"{node.key} of several columns")
        if isinstance(node, exp.AnyValue):
            node.replace(exp.Min(this=node.this))
        return kind

    def truth(self, node: exp.Expr) -> Kind:
        self._conditions([node.this])
        return BOOLEAN

    def _argument(self, node: exp.Expr) -> Part:
        """The argument of an aggregate, without DISTINCT, and its type."""
        inner = node.this
        if isinstance(inner, exp.Distinct):
            if len(inner.expressions) != 1 or isinstance(node.parent, exp.Window):
                raise NeedsSpark(f"{node.key} of DISTINCT")
            inner = inner.expressions[0]
        return self._part(inner)

    def filtered(self, node: exp.Filter) -> Kind:
        self._conditions([node.expression.this])
        return self.kind(node.this)

    def window(self, node: exp.Window) -> Kind:
        for part, value in node.args.items():
            if value and part not in ("this", "partition_by", "order", "spec", "over"):
                raise NeedsSpark(f"{part} of a window")
        spec = node.args.get("spec")
        frame = {} if spec is None else spec.args
        if str(frame.get("kind")).upper() == "RANGE" and any(
            isinstance(frame[end], exp.Expr) for end in ("start", "end")
        ):
            raise NeedsSpark("a window with a RANGE of values")
        order = node.args.get("order")
        self._kinds([*(node.args.get("partition_by") or ()), *([] if order is None else order.expressions)])
        return self.kind(node.this)

    def number_of_row(self, node: exp.Expr) -> Kind:
        if node.expressions or node.this is not None:
            raise NeedsSpark(f"{node.key} of values")
        cast_in_place(whole_call(node), INT)
        return INT

    def _aligned(self, nodes: Sequence[exp.Expr], node: exp.Expr, in_pairs: bool = False) -> Kind:
        return align(self._parts(nodes), node.key, in_pairs)


def _need_number(kind: Kind, node: exp.Expr) -> Kind:
    if not kind.is_number:
        raise NeedsSpark(f"{node.key} of {kind}")
    return kind


def _digits_of(node: exp.Expr) -> int:
    """The digits of a whole number in a query, 0 for other expressions."""
    inner = node.this if isinstance(node, exp.Neg) else node
    is_whole = isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit()
    return len(str(int(inner.name))) if is_whole else 0


_METHODS: Final[Sequence[tuple[tuple[type[exp.Expr], ...], Callable[[Expressions, Any], Kind]]]] = (
    ((exp.Column,), Expressions.column),
    ((exp.Literal,), Expressions.literal),
    ((exp.Boolean, exp.Null), Expressions.constant),
    ((exp.Paren,), Expressions.inner),
    ((exp.Ordered,), Expressions.ordered),
    ((exp.And, exp.Or, exp.Not, exp.Is), Expressions.condition),
    ((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ), Expressions.comparison),
    ((exp.Between,), Expressions.between),
    ((exp.In,), Expressions.is_in),
    ((exp.Exists,), Expressions.exists),
    ((exp.Subquery,), Expressions.subquery),
    ((exp.Coalesce,), Expressions.coalesce),
    ((exp.Greatest, exp.Least), Expressions.extreme),
    ((exp.Nullif,), Expressions.nullif),
    ((exp.Case,), Expressions.case),
    ((exp.If,), Expressions.choice),
    ((exp.Neg,), Expressions.negated),
    ((exp.Abs,), Expressions.absolute),
    ((exp.Add, exp.Sub, exp.Mul), Expressions.arithmetic),
    ((exp.Div,), Expressions.division),
    ((exp.Mod,), Expressions.remainder),
    ((exp.Sum,), Expressions.total),
    ((exp.Avg,), Expressions.average),
    ((exp.Count,), Expressions.count),
    ((exp.CountIf,), Expressions.count_if),
    ((exp.Min, exp.Max, exp.AnyValue), Expressions.picked),
    ((exp.LogicalOr, exp.LogicalAnd), Expressions.truth),
    ((exp.Filter,), Expressions.filtered),
    ((exp.Window,), Expressions.window),
    ((exp.RowNumber, exp.Rank, exp.DenseRank), Expressions.number_of_row),
    ((exp.Like,), Expressions.like),
    ((exp.ConcatWs,), Expressions.joined),
    ((exp.DPipe, exp.Concat), Expressions.concat),
    ((exp.StartsWith, exp.EndsWith, exp.Contains), Expressions.text_test),
    ((exp.Length,), Expressions.length),
    ((exp.Substring,), Expressions.substring),
    ((exp.Trim,), Expressions.trim),
    ((exp.Round,), Expressions.rounded),
    ((exp.TsOrDsToDate,), Expressions.to_date),
    ((exp.Cast,), Expressions.cast),
    ((exp.DateDiff,), Expressions.date_difference),
    ((exp.TimestampTrunc,), Expressions.truncation),
    (tuple(DATE_PARTS), Expressions.date_part),
    (tuple(TIME_PARTS), Expressions.time_part),
)
"""Nodes, the more special ones first → their translation."""
