"""The expressions of Spark's SQL that DuckDB computes with the same result and type, in the words of DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from lakelog.errors import did_you_mean
from lakelog.sql.embedded.casts import align, call, cast_in_place
from lakelog.sql.embedded.functions.aggregates import AGGREGATES, Aggregates
from lakelog.sql.embedded.functions.numbers import NUMBERS, Numbers
from lakelog.sql.embedded.functions.texts import TEXTS, Texts
from lakelog.sql.embedded.functions.times import TIMES_OF_SQL, Times
from lakelog.sql.embedded.functions.translation import Methods
from lakelog.sql.embedded.types import BOOLEAN, NULL, OTHER, STRING, WHOLE, Kind, literal_kind
from lakelog.state.spark_functions import NeedsSpark


class Expressions(Numbers, Aggregates, Texts, Times):
    """Checks and translates the expressions of one SELECT in place.

    ``relations`` are the columns that they may name, ``outputs`` those of the SELECT itself, which ORDER BY may name;
    ``query`` returns the types of a subquery.
    """

    def __init__(
        self,
        relations: Mapping[str, Mapping[str, Kind]],
        query: Callable[[exp.Expr], Sequence[Kind]],
        short_decimals: bool,
    ) -> None:
        self._relations, self._query, self.short_decimals = relations, query, short_decimals
        self.outputs: dict[str, Kind] = {}

    def kind(self, node: exp.Expr) -> Kind:
        """The type of an expression, which is translated. Raises NeedsSpark."""
        for kinds, method in _METHODS:
            if isinstance(node, kinds):
                outcome: Kind = method(self, node)
                return outcome
        raise NeedsSpark(f"{node.name or node.key}()" if isinstance(node, exp.Func) else node.key)

    def column(self, node: exp.Column) -> Kind:
        known = self._relations.get(node.table.lower()) if node.table else self.outputs
        if known is None:
            raise NeedsSpark(f"column {node.sql()}")
        try:
            return known[node.name.lower()]
        except KeyError:
            raise NeedsSpark(f"column {node.sql()}") from None

    def part_of_struct(self, node: exp.Dot) -> Kind:
        kind = self.kind(node.this)
        part = kind.parts.get(node.name.lower())
        if part is None:
            raise NeedsSpark(f"the part {node.sql()} of a value")
        node.replace(call("struct_extract", node.this, exp.Literal.string(node.name)))
        return part

    def literal(self, node: exp.Literal) -> Kind:
        if node.is_string:
            return STRING
        kind = literal_kind(node.name)
        cast_in_place(node, kind)
        return kind

    def constant(self, node: exp.Expr) -> Kind:
        return BOOLEAN if isinstance(node, exp.Boolean) else NULL

    def inner(self, node: exp.Expr) -> Kind:
        return self.kind(node.this)

    def ordered(self, node: exp.Ordered) -> Kind:
        kind = self.kind(node.this)
        if kind == OTHER:
            raise NeedsSpark("an order of nested values")
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
        self._fill_up([node.this, node.expression], node)
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
            if not any(part.find(exp.Null, exp.Column) for part in node.expressions):
                self._fill_up([node.this, *node.expressions], node)
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
        kind = self.part(node.this).kind
        other = node.expression.copy()
        test = exp.EQ(this=before, expression=other)
        place = exp.Case(ifs=[exp.If(this=test, true=exp.Null())], default=node.this)
        self._aligned([test.this, test.expression], test)
        node.replace(place)
        return kind

    def case(self, node: exp.Case) -> Kind:
        branches = node.args["ifs"]
        if node.this is not None:
            self._aligned([node.this, *(branch.this for branch in branches)], node, True)
            self._fill_up([node.this, *(branch.this for branch in branches)], node)
        else:
            self._conditions([branch.this for branch in branches])
        default = node.args.get("default")
        return self._aligned([*(b.args["true"] for b in branches), *([] if default is None else [default])], node)

    def choice(self, node: exp.If) -> Kind:
        self._conditions([node.this])
        other = node.args.get("false")
        return self._aligned([node.args["true"], *([] if other is None else [other])], node)

    def _fill_up(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> None:
        """Gives CHAR columns and the texts that they are compared with the same length, by blanks, as Spark does.

        It does so in comparisons, CASE, and IN with a list of texts alone; not in BETWEEN and NULLIF.
        """
        parts = [part.unnest() for part in nodes]
        widths = [self.column(part).width if isinstance(part, exp.Column) else 0 for part in parts]
        if not any(widths):
            return
        others = [
            part for part, length in zip(parts, widths, strict=True) if not length and not isinstance(part, exp.Null)
        ]
        if not all(isinstance(part, exp.Literal) and part.is_string for part in others):
            if all(part.find(exp.Column) for part in others):
                return  # blanks count beside other columns
            raise NeedsSpark(f"{node.key} of CHAR and other values")
        width = max(*widths, *(len(part.name) for part in others))
        for part, length in zip(parts, widths, strict=True):
            if isinstance(part, exp.Literal):
                part.set("this", part.name.ljust(width))
            elif 0 < length < width:
                part.replace(call("rpad", part.copy(), exp.Literal.number(width), exp.Literal.string(" ")))

    def nvl2(self, node: exp.Nvl2) -> Kind:
        place = exp.If(
            this=exp.Not(this=exp.Is(this=node.this, expression=exp.Null())),
            true=node.args["true"],
            false=node.args["false"],
        )
        node.replace(place)
        return self.kind(place)

    def is_null(self, node: exp.Anonymous) -> Kind:
        """ISNULL and ISNOTNULL, which sqlglot does not know."""
        name = node.name.lower()
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            near = did_you_mean(name, [known.lower() for known in Spark.Parser.FUNCTIONS], similarity=0.8)
            raise NeedsSpark(f"{name}()", near and f"function '{name}' is not available without Spark{near}")
        test: exp.Expr = exp.Is(this=node.expressions[0], expression=exp.Null())
        place = exp.Paren(this=exp.Not(this=test) if name == "isnotnull" else test)
        node.replace(place)
        return self.kind(place)


_METHODS: Final[Methods] = (
    ((exp.Column,), Expressions.column),
    ((exp.Dot,), Expressions.part_of_struct),
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
    ((exp.Nvl2,), Expressions.nvl2),
    ((exp.Case,), Expressions.case),
    ((exp.If,), Expressions.choice),
    ((exp.Anonymous,), Expressions.is_null),
    *NUMBERS,
    *AGGREGATES,
    *TEXTS,
    *TIMES_OF_SQL,
)
"""Nodes, the more special ones first → their translation."""
