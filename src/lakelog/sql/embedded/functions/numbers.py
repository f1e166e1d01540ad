"""Arithmetic and functions of numbers that DuckDB computes with Spark's result and type."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from lakelog.sql.embedded.casts import as_kind, call, cast_in_place, roomy
from lakelog.sql.embedded.functions.translation import Methods, Translation, need_number, whole_literal
from lakelog.sql.embedded.types import (
    BIGINT,
    DATE,
    DOUBLE,
    TIMESTAMP_NTZ,
    WHOLE,
    Kind,
    arithmetic_kind,
    decimal,
    literal_kind,
    quotient_kind,
    unified,
)
from lakelog.state.spark_functions import (
    DECIMAL_QUOTIENT,
    QUOTIENT,
    REMAINDER,
    SQUARE_ROOT,
    WHOLE_QUOTIENT,
    NeedsSpark,  # fmt: skip
)

_FLOATS: Final = ("FLOAT", "DOUBLE")
_CALLS: Final[dict[type[exp.Expr], str]] = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}
"""By their names, because DuckDB moves the numbers of ``i + 1 > 1`` to one side, and then ``i + 1`` never overflows."""
_MONTHS: Final = ("YEAR", "QUARTER", "MONTH")
_DAYS: Final = ("WEEK", "DAY")
_TIMES: Final = ("HOUR", "MINUTE", "SECOND")


class Numbers(Translation):
    """The translation of arithmetic."""

    def negated(self, node: exp.Neg) -> Kind:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            kind = literal_kind(f"-{node.this.name}")
            cast_in_place(node, kind)
            return kind
        return self.absolute(node)

    def absolute(self, node: exp.Expr) -> Kind:
        return need_number(self.kind(node.this), node)

    def arithmetic(self, node: exp.Binary) -> Kind:
        if isinstance(node.expression, exp.Interval):
            return self._moved(node)
        digits = [_digits_of(side) for side in (node.this, node.expression)]
        one, other = self._parts([node.this, node.expression])
        if isinstance(node, exp.Add | exp.Sub) and one.kind == DATE and other.kind.root in WHOLE[:3]:
            return DATE
        kinds = [need_number(part.kind, node) for part in (one, other)]
        if "DECIMAL" in (kinds[0].root, kinds[1].root):  # a whole number in the query has the digits that it has
            kinds = [decimal(n, 0) if n and k.root in WHOLE else k for n, k in zip(digits, kinds, strict=True)]
        kind = arithmetic_kind(node, *kinds)
        for part, kind_there in zip((one, other), kinds, strict=True):
            goal = kind if kind.root != "DECIMAL" else kind_there.decimal
            if kind.root == "DECIMAL" and not self.short_decimals:
                goal = roomy(goal, kind)
            if part.kind != goal:
                cast_in_place(part.node, goal)
        result: exp.Expr = node
        if kind.root in WHOLE and type(node) in _CALLS:
            result = node.replace(call(_CALLS[type(node)], node.this, node.expression))
        if kind.root != "DECIMAL" or not self.short_decimals:
            cast_in_place(result, kind)
        return kind

    def _moved(self, node: exp.Binary) -> Kind:
        """A date or time moved by an interval of one unit."""
        interval = node.expression
        unit = interval.args.get("unit")
        name = "" if unit is None else unit.name.upper().removesuffix("S")
        count = interval.this
        text = count.name if isinstance(count, exp.Literal) else ""
        kind = self.kind(node.this)
        is_day = name in (*_MONTHS, *_DAYS)
        fits = kind == DATE and is_day or kind == TIMESTAMP_NTZ and name in (*_MONTHS, *_DAYS, *_TIMES)
        if not fits or not text.removeprefix("-").isdigit() or not isinstance(node, exp.Add | exp.Sub):
            raise NeedsSpark(f"{kind} and an interval")
        interval.set("this", exp.Literal.string(text))
        interval.set("unit", exp.Var(this=name))
        cast_in_place(node, kind)
        return kind

    def division(self, node: exp.Div) -> Kind:
        digits = [_digits_of(side) for side in (node.this, node.expression)]
        kinds = [need_number(kind, node) for kind in self._kinds([node.this, node.expression])]
        roots = {kind.root for kind in kinds}
        if "DECIMAL" not in roots or roots & set(_FLOATS):
            for part, kind in zip((node.this, node.expression), kinds, strict=True):
                if kind.root == "DECIMAL":
                    unified([kind, DOUBLE], node.key)
                cast_in_place(part, DOUBLE)
            node.replace(call(QUOTIENT, node.this, node.expression))
            return DOUBLE
        one, other = (decimal(n, 0) if n and k.root in WHOLE else k.decimal for n, k in zip(digits, kinds, strict=True))
        kind = quotient_kind(one, other)
        shift = kind.scale - one.scale + other.scale
        unit = as_kind(exp.Literal.string(f"{10**-kind.scale:.{kind.scale}f}"), Kind("DECIMAL", 38, kind.scale))
        powers = [exp.Literal.number(str(10 ** max(places, 0))) for places in (shift, -shift)]
        sides = [as_kind(side.copy(), k) for side, k in zip((node.this, node.expression), (one, other), strict=True)]
        node.replace(as_kind(call(DECIMAL_QUOTIENT, *sides, *powers, unit), kind))
        return kind

    def whole_division(self, node: exp.IntDiv) -> Kind:
        for kind in self._kinds([node.this, node.expression]):
            if kind.root not in WHOLE:
                raise NeedsSpark(f"div of {kind}")
        sides = [as_kind(side.copy(), BIGINT) for side in (node.this, node.expression)]
        node.replace(call(WHOLE_QUOTIENT, *sides))
        return BIGINT

    def remainder(self, node: exp.Mod) -> Kind:
        kinds = self._kinds([node.this, node.expression])
        if any(kind.root not in WHOLE for kind in kinds):
            raise NeedsSpark("a remainder of " + " and ".join(map(str, kinds)))
        kind = unified(kinds, node.key)
        sides = [as_kind(side.copy(), kind) for side in (node.this.unnest(), node.expression.unnest())]
        node.replace(as_kind(call(REMAINDER, *sides), kind))
        return kind

    def rounded(self, node: exp.Round) -> Kind:
        places = node.args.get("decimals")
        kind = self.kind(node.this)
        number = 0 if places is None else whole_literal(places)
        if kind.root in WHOLE and number is not None and number >= 0:
            node.replace(node.this)
            return kind
        if kind.root != "DECIMAL" or number is None or number < 0:
            raise NeedsSpark(f"round of {kind}")
        scale = min(number, kind.scale)
        goal = decimal(kind.digits - kind.scale + 1 + scale, scale)
        node.replace(as_kind(node.this, goal))
        return goal

    def whole(self, node: exp.Floor | exp.Ceil) -> Kind:
        """FLOOR and CEIL without places."""
        if node.args.get("decimals") is not None or node.args.get("to") is not None:
            raise NeedsSpark(f"{node.key} with places")
        kind = need_number(self.kind(node.this), node)
        goal = BIGINT if kind.root != "DECIMAL" else decimal(kind.digits - kind.scale + (kind.scale > 0), 0)
        node.replace(as_kind(node.this if kind.root in WHOLE else call(node.key, node.this), goal))
        return goal

    def root(self, node: exp.Sqrt) -> Kind:
        unified([need_number(self.kind(node.this), node), DOUBLE], node.key)
        node.replace(call(SQUARE_ROOT, as_kind(node.this, DOUBLE)))
        return DOUBLE


def _digits_of(node: exp.Expr) -> int:
    """The digits of a whole number in a query, 0 for other expressions."""
    value = whole_literal(node)
    return 0 if value is None else len(str(abs(value)))


NUMBERS: Final[Methods] = (
    ((exp.Neg,), Numbers.negated),
    ((exp.Abs,), Numbers.absolute),
    ((exp.Add, exp.Sub, exp.Mul), Numbers.arithmetic),
    ((exp.IntDiv,), Numbers.whole_division),
    ((exp.Div,), Numbers.division),
    ((exp.Mod,), Numbers.remainder),
    ((exp.Round,), Numbers.rounded),
    ((exp.Floor, exp.Ceil), Numbers.whole),
    ((exp.Sqrt,), Numbers.root),
)
