"""Aggregates and window functions that DuckDB computes with Spark's result and type."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from lakelog.sql.embedded.casts import Part, cast_in_place, decimal_average, whole_call
from lakelog.sql.embedded.functions.translation import Methods, Translation, need_number, whole_literal
from lakelog.sql.embedded.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, OTHER, WHOLE, Kind, sum_kind
from lakelog.state.spark_functions import NeedsSpark


class Aggregates(Translation):
    """The translation of aggregates and windows."""

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
        return self.part(inner)

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

    def spread(self, node: exp.Expr) -> Kind:
        """STDDEV, VARIANCE and the like."""
        argument, kind = self._argument(node)
        if need_number(kind, node).root == "DECIMAL" or isinstance(node.this, exp.Distinct):
            raise NeedsSpark(f"{node.key} of {kind}")
        cast_in_place(argument, DOUBLE)
        return DOUBLE

    def neighbour(self, node: exp.Lag | exp.Lead) -> Kind:
        offset, default = node.args.get("offset"), node.args.get("default")
        if offset is not None and whole_literal(offset) is None or default is not None:
            raise NeedsSpark(f"{node.key} with a default")
        return self.kind(node.this)

    def edge(self, node: exp.FirstValue | exp.LastValue) -> Kind:
        if not isinstance(node.parent, exp.Window):
            raise NeedsSpark(f"{node.key} of a group, whose rows have no order")
        return self.kind(node.this)

    def share(self, node: exp.Expr) -> Kind:
        """PERCENT_RANK and CUME_DIST."""
        if node.expressions:
            raise NeedsSpark(f"{node.key} of values")
        return DOUBLE

    def tile(self, node: exp.Ntile) -> Kind:
        if (whole_literal(node.this) or 0) < 1:
            raise NeedsSpark("ntile of a computed number")
        cast_in_place(whole_call(node), INT)
        return INT


AGGREGATES: Final[Methods] = (
    ((exp.Sum,), Aggregates.total),
    ((exp.Avg,), Aggregates.average),
    ((exp.Count,), Aggregates.count),
    ((exp.CountIf,), Aggregates.count_if),
    ((exp.Min, exp.Max, exp.AnyValue), Aggregates.picked),
    ((exp.LogicalOr, exp.LogicalAnd), Aggregates.truth),
    ((exp.Filter,), Aggregates.filtered),
    ((exp.Window,), Aggregates.window),
    ((exp.RowNumber, exp.Rank, exp.DenseRank), Aggregates.number_of_row),
    ((exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop), Aggregates.spread),
    ((exp.Lag, exp.Lead), Aggregates.neighbour),
    ((exp.FirstValue, exp.LastValue), Aggregates.edge),
    ((exp.PercentRank, exp.CumeDist), Aggregates.share),
    ((exp.Ntile,), Aggregates.tile),
)
