"""Functions of dates and times that DuckDB computes with Spark's result and type; casts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from lakelog.sql.embedded.casts import TIMES, as_kind, as_time, call, check_cast, is_number_text, target, time_of
from lakelog.sql.embedded.functions.translation import Methods, Translation, whole_literal
from lakelog.sql.embedded.types import DATE, INT, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, WHOLE, Kind
from lakelog.state.spark_functions import INSTANT, TRUNCATED, WHOLE_OF_TEXT, NeedsSpark

_LONG_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK")
_SHORT_UNITS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
_Names = Mapping[type[exp.Expr], str]
DATE_PARTS: Final[_Names] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "dayofyear",
    exp.WeekOfYear: "week",
}
TIME_PARTS: Final[_Names] = {exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second"}


class Times(Translation):
    """The translation of functions of dates and times."""

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
        if literal is not None and goal.root == "DOUBLE" and is_number_text(literal.name):
            node.replace(as_kind(literal, goal))
            return goal
        if kind in TIMES and goal in TIMES:
            node.replace(as_time(node.this, kind, goal))
            return goal
        if kind != NULL:
            check_cast(kind, goal)
        is_safe, value = node.args.get("safe"), node.this
        if goal.root in WHOLE and kind.root not in (*WHOLE, "NULL"):
            if is_safe:
                raise NeedsSpark(f"try_cast of {kind} to {goal}")
            # DuckDB rounds, Spark cuts
            value = call(WHOLE_OF_TEXT if kind == STRING else "trunc", value)
        node.replace((exp.TryCast if is_safe else exp.Cast)(this=value, to=goal.duckdb))
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

    def extracted(self, node: exp.Extract) -> Kind:
        name = node.this.name.lower()
        parts = {word: kind for names in (DATE_PARTS, TIME_PARTS) for kind, word in names.items() if word != "second"}
        if name not in parts:
            raise NeedsSpark(f"extract({name} …)")
        place = parts[name](this=node.expression)
        node.replace(place)
        return self.kind(place)

    def day_of_week(self, node: exp.DayOfWeek) -> Kind:
        """1 is Sunday."""
        kind = self.kind(node.this)
        if kind not in TIMES:
            raise NeedsSpark(f"dayofweek of {kind}")
        day = call("dayofweek", as_time(node.this, kind, DATE))
        node.replace(as_kind(exp.Paren(this=exp.Add(this=day, expression=exp.Literal.number(1))), INT))
        return INT

    def last_day(self, node: exp.LastDay) -> Kind:
        kind = self.kind(node.this)
        if kind not in TIMES or node.args.get("unit"):
            raise NeedsSpark(f"last_day of {kind}")
        node.replace(call("last_day", as_time(node.this, kind, DATE)))
        return DATE

    def later_day(self, node: exp.TsOrDsAdd) -> Kind:
        """DATE_ADD and DATE_SUB."""
        days = node.expression
        if isinstance(days, exp.Mul):  # that of DATE_SUB
            days = exp.Neg(this=days.this)
        count, kind = whole_literal(days), self.kind(node.this)
        if count is None or kind not in TIMES or node.args["unit"].name.upper() != "DAY":
            raise NeedsSpark(f"date_add of {kind}")
        sum_ = exp.Add(this=as_time(node.this, kind, DATE), expression=as_kind(exp.Literal.number(count), INT))
        node.replace(exp.Paren(this=sum_))
        return DATE

    def later_month(self, node: exp.AddMonths) -> Kind:
        count, kind = whole_literal(node.expression), self.kind(node.this)
        if count is None or kind not in TIMES:
            raise NeedsSpark(f"add_months of {kind}")
        months = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.Var(this="MONTH"))
        node.replace(as_kind(exp.Add(this=as_time(node.this, kind, DATE), expression=months), DATE))
        return DATE

    def formatted(self, node: exp.TimeToStr) -> Kind:
        """DATE_FORMAT with numbers of a fixed width only."""
        inner = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
        pattern = node.args["format"].name.replace("strict", "")
        if re.sub("%[YmdHMS]", "", pattern).strip(" -/:.") or not isinstance(node.args["format"], exp.Literal):
            raise NeedsSpark("date_format with this pattern")
        node.set("this", inner)
        kind = self.kind(inner)
        if kind not in TIMES:
            raise NeedsSpark(f"date_format of {kind}")
        node.replace(call("strftime", as_time(node.this, kind, TIMESTAMP_NTZ), exp.Literal.string(pattern)))
        return STRING


TIMES_OF_SQL: Final[Methods] = (
    ((exp.TsOrDsToDate,), Times.to_date),
    ((exp.Cast,), Times.cast),
    ((exp.DateDiff,), Times.date_difference),
    ((exp.TimestampTrunc,), Times.truncation),
    ((exp.Extract,), Times.extracted),
    ((exp.DayOfWeek,), Times.day_of_week),
    ((exp.LastDay,), Times.last_day),
    ((exp.TsOrDsAdd,), Times.later_day),
    ((exp.AddMonths,), Times.later_month),
    ((exp.TimeToStr,), Times.formatted),
    (tuple(DATE_PARTS), Times.date_part),
    (tuple(TIME_PARTS), Times.time_part),
)
