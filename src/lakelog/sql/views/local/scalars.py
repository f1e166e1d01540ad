"""Functions of texts, decimals, dates and times that DuckDB computes with Spark's result and type; casts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from lakelog.sql.views.local.casts import (
    TIMES,
    Part,
    as_kind,
    as_time,
    call,
    cast_in_place,
    check_cast,
    target,
    time_of,
)  # fmt: skip
from lakelog.sql.views.local.types import (
    BOOLEAN,
    DATE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    WHOLE,
    Kind,
    NeedsSpark,
    decimal,
)  # fmt: skip
from lakelog.table.views.local_functions import INSTANT, TRUNCATED

_LONG_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK")
_SHORT_UNITS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
_Names = Mapping[type[exp.Expr], str]
DATE_PARTS: Final[_Names] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
}
TIME_PARTS: Final[_Names] = {exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second"}
TEXT_TESTS: Final[_Names] = {exp.StartsWith: "starts_with", exp.EndsWith: "ends_with", exp.Contains: "contains"}


class Scalars(ABC):
    """The translation of such functions in place; each method returns the type of a node."""

    @abstractmethod
    def kind(self, node: exp.Expr) -> Kind:
        """The type of an expression, which is translated. Raises NeedsSpark."""

    def _part(self, node: exp.Expr) -> Part:
        """The translation of an expression: what is in its place then, and its type."""
        above, name, index = node.parent, node.arg_key, node.index
        kind = self.kind(node)
        assert above is not None and name is not None
        now = above.args[name]
        return Part(now if index is None else now[index], kind)

    def _parts(self, nodes: Sequence[exp.Expr]) -> list[Part]:
        return [self._part(node) for node in nodes]

    def _kinds(self, nodes: Sequence[exp.Expr]) -> list[Kind]:
        return [part.kind for part in self._parts(nodes)]

    def like(self, node: exp.Like) -> Kind:
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or "\\" in pattern.name:
            raise NeedsSpark("LIKE with an escape")
        self._texts([node.this], node)
        return BOOLEAN

    def concat(self, node: exp.Expr) -> Kind:
        """Texts, or numbers and dates as texts; NULL if one of them is."""
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        for part, kind in self._parts(parts):
            if kind.root not in (*WHOLE, "STRING", "DATE", "NULL"):
                raise NeedsSpark(f"concat of {kind}")
            cast_in_place(part, STRING)
        if isinstance(node, exp.Concat):
            texts = node.expressions
            joined = texts[0]
            for text in texts[1:]:
                joined = exp.DPipe(this=joined, expression=text)
            node.replace(exp.Paren(this=joined))
        return STRING

    def joined(self, node: exp.ConcatWs) -> Kind:
        self._texts(node.expressions, node)
        return STRING

    def text_test(self, node: exp.Expr) -> Kind:
        self._texts([node.this, node.expression], node)
        node.replace(call(TEXT_TESTS[type(node)], node.this, node.expression))
        return BOOLEAN

    def length(self, node: exp.Length) -> Kind:
        self._texts([node.this], node)
        node.replace(as_kind(call("length", node.this), INT))
        return INT

    def substring(self, node: exp.Substring) -> Kind:
        bounds = [part for part in (node.args.get("start"), node.args.get("length")) if part is not None]
        if not all(isinstance(b, exp.Literal) and b.name.isdigit() for b in bounds) or not int(bounds[0].name):
            raise NeedsSpark("substring with a computed place")
        self._texts([node.this], node)
        node.replace(call("substring", node.this, *bounds))
        return STRING

    def trim(self, node: exp.Trim) -> Kind:
        if any(value for part, value in node.args.items() if part != "this"):
            raise NeedsSpark("trim of other characters than spaces")
        self._texts([node.this], node)
        node.replace(call("trim", node.this, exp.Literal.string(" ")))
        return STRING

    def _texts(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> None:
        for kind in self._kinds(nodes):
            if kind != STRING:
                raise NeedsSpark(f"{node.key} of {kind}")

    def rounded(self, node: exp.Round) -> Kind:
        places = node.args.get("decimals")
        kind = self.kind(node.this)
        number = 0 if places is None else int(places.name) if places.name.isdigit() else -1
        if kind.root != "DECIMAL" or number < 0:
            raise NeedsSpark(f"round of {kind}")
        scale = min(number, kind.scale)
        goal = decimal(kind.digits - kind.scale + 1 + scale, scale)
        node.replace(as_kind(node.this, goal))
        return goal

    def cast(self, node: exp.Cast) -> Kind:
        """CAST fails in both for a value that does not fit, and TRY_CAST is NULL."""
        kind = self.kind(node.this)
        goal = target(node)
        literal = node.this if isinstance(node.this, exp.Literal) and kind == STRING else None
        if literal is not None and goal in TIMES:
            node.replace(time_of(literal, goal))
            return goal
        if literal is not None and goal.root == "DECIMAL" and re.fullmatch(r"-?\d+(\.\d+)?", literal.name):
            node.replace(as_kind(literal, goal))  # a number such as 1.5BD
            return goal
        if kind in TIMES and goal in TIMES:
            node.replace(as_time(node.this, kind, goal))
            return goal
        if kind != NULL:
            check_cast(kind, goal)
        kind_of_cast = exp.TryCast if node.args.get("safe") else exp.Cast
        node.replace(kind_of_cast(this=node.this, to=goal.duckdb))
        return goal

    def to_date(self, node: exp.TsOrDsToDate) -> Kind:
        kind = self.kind(node.this)
        if kind not in TIMES or node.args.get("format"):
            raise NeedsSpark(f"a date of {kind}")
        node.replace(as_time(node.this, kind, DATE))
        return DATE

    def date_difference(self, node: exp.DateDiff) -> Kind:
        if node.args.get("unit") or self._kinds([node.this, node.expression]) != [DATE, DATE]:
            raise NeedsSpark("datediff of other values than dates")
        node.replace(as_kind(exp.Paren(this=exp.Sub(this=node.this, expression=node.expression)), INT))
        return INT

    def truncation(self, node: exp.TimestampTrunc) -> Kind:
        unit = node.args.get("unit")
        name = "" if unit is None else unit.name.upper()
        kind = self.kind(node.this)
        if name not in (*_LONG_UNITS, *_SHORT_UNITS) or kind not in TIMES:
            raise NeedsSpark(f"date_trunc of {kind}")
        part, time = exp.Literal.string(name.lower()), as_time(node.this, kind, TIMESTAMP)
        local = as_kind(time, TIMESTAMP_NTZ)
        if name in _SHORT_UNITS:
            node.replace(call(TRUNCATED, part, time))
        else:
            node.replace(call(INSTANT, call("date_trunc", part, local)))
        return TIMESTAMP

    def date_part(self, node: exp.Expr) -> Kind:
        kind = self.kind(node.this)
        if kind not in TIMES:
            raise NeedsSpark(f"{node.key} of {kind}")
        node.replace(as_kind(call(DATE_PARTS[type(node)], as_time(node.this, kind, DATE)), INT))
        return INT

    def time_part(self, node: exp.Expr) -> Kind:
        kind = self.kind(node.this)
        if kind not in (TIMESTAMP, TIMESTAMP_NTZ):
            raise NeedsSpark(f"{node.key} of {kind}")
        local = as_time(node.this, kind, TIMESTAMP_NTZ)
        node.replace(as_kind(call(TIME_PARTS[type(node)], local), INT))
        return INT
