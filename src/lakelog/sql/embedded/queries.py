"""Spark's SQL in the words of DuckDB: only what has the same results there.

Everything else raises NeedsSpark, which says why; Spark then computes the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from lakelog.sql.embedded.casts import align
from lakelog.sql.embedded.expressions import Expressions
from lakelog.sql.embedded.types import ANY, NULL, OTHER, Kind, unified
from lakelog.state.spark_functions import NeedsSpark

Relations = Mapping[str, Mapping[str, Kind]]
"""Alias of a relation → its columns, all in lower case."""


class AnyColumns(dict[str, Kind]):
    """The columns of a relation whose types depend on those that they are compared with."""

    def __missing__(self, name: str) -> Kind:
        return ANY


_CLAUSES: Final = (
    "with_", "expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct", "order", "kind",
    "limit", "offset",
)  # fmt: skip
"""Parts of a SELECT with the same meaning in both."""
_JOIN_PARTS: Final = ("this", "on", "kind", "side")
_SET_PARTS: Final = ("with_", "this", "expression", "distinct", "order", "limit", "offset")


def translated(tree: exp.Query, tables: Relations, short_decimals: bool = False) -> tuple[exp.Query, list[Kind]]:
    """A query for DuckDB, and the types of its columns, which are Spark's. Raises NeedsSpark.

    All columns of the query name their relation; ``tables`` are the relations beside those of the query itself. With
    ``short_decimals`` DuckDB computes decimals with 64 bits where it can, and the query fails for longer ones.
    """
    copy = tree.copy()
    kinds = _Queries(tables, short_decimals).kinds(copy, {}, {})
    _cast_outputs(copy, kinds)
    return copy, kinds


def text_of(tree: exp.Query) -> str:
    """The text of a translated query."""
    return str(tree.sql(dialect="duckdb", identify=True))


def _cast_outputs(tree: exp.Expr, kinds: Sequence[Kind]) -> None:
    """Gives the columns of a query their types, except for those that are plain columns."""
    if isinstance(tree, exp.Subquery):
        _cast_outputs(tree.this, kinds)
    elif isinstance(tree, exp.SetOperation):
        _cast_outputs(tree.this, kinds)
        _cast_outputs(tree.expression, kinds)
    elif isinstance(tree, exp.Select):
        for part, kind in zip(tree.selects, kinds, strict=True):
            inner = part.unalias()
            if kind in (NULL, ANY) or (isinstance(inner, exp.Column) and isinstance(tree.parent, type(None))):
                continue
            if kind != OTHER:
                name, value = part.alias_or_name, inner.copy()
                if isinstance(value, exp.Subquery):
                    value.set("alias", None)
                part.replace(exp.alias_(exp.Cast(this=value, to=kind.duckdb), name, quoted=True))


class _Queries:
    """Checks and translates the queries of a tree; each from the inside out."""

    def __init__(self, tables: Relations, short_decimals: bool) -> None:
        self._tables, self._short = tables, short_decimals

    def kinds(self, tree: exp.Expr, outer: Relations, common: Relations) -> list[Kind]:
        """The types of the columns of a query. ``outer`` are relations around it, ``common`` are WITH's."""
        if isinstance(tree, exp.Subquery):
            _check_parts(tree, ("this", "alias"))
            return self.kinds(tree.this, outer, common)
        common = {**common, **self._common(tree, outer, common)}
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, outer, common)
        if isinstance(tree, exp.Select):
            return self._select(tree, outer, common)
        raise NeedsSpark(tree.key)

    def _common(self, tree: exp.Expr, outer: Relations, common: Relations) -> Relations:
        result: dict[str, Mapping[str, Kind]] = {}
        with_ = tree.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise NeedsSpark("a recursive query")
        for part in [] if with_ is None else with_.expressions:
            result[part.alias.lower()] = self._named(part, outer, {**common, **result})
        return result

    def _named(self, relation: exp.Expr, outer: Relations, common: Relations) -> Mapping[str, Kind]:
        """The columns of a subquery or common table expression."""
        kinds = self.kinds(relation.this, outer, common)
        alias = relation.args.get("alias")
        names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
        names = names or [part.alias_or_name for part in relation.this.selects]
        return {name.lower(): kind for name, kind in zip(names, kinds, strict=True)}

    def _set_operation(self, tree: exp.SetOperation, outer: Relations, common: Relations) -> list[Kind]:
        _check_parts(tree, _SET_PARTS)
        sides = [self.kinds(side, outer, common) for side in (tree.this, tree.expression)]
        result = [unified(pair, tree.key) for pair in zip(*sides, strict=True)]
        order = tree.args.get("order")
        for part in [] if order is None else order.expressions:
            if not isinstance(part.this, exp.Column | exp.Literal):
                raise NeedsSpark(f"an order of a {tree.key} by an expression")
        if any(kinds != result for kinds in sides):
            for side in (tree.this, tree.expression):
                _cast_outputs(side, result)
        return result

    def _select(self, select: exp.Select, outer: Relations, common: Relations) -> list[Kind]:
        _check_parts(select, _CLAUSES)
        if select.args.get("kind") or (select.args.get("distinct") and select.args["distinct"].args.get("on")):
            raise NeedsSpark("a SELECT of another kind")
        near: dict[str, Mapping[str, Kind]] = {}
        joins = select.args.get("joins") or []
        start = select.args.get("from_")
        for relation in [*([] if start is None else [start.this]), *(join.this for join in joins)]:
            near[relation.alias_or_name.lower()] = self._relation(relation, outer, common)
        seen = {**outer, **near}
        expressions = Expressions(seen, lambda tree: self.kinds(tree, seen, common), self._short)
        for join in joins:
            _check_parts(join, _JOIN_PARTS)
            self._visit(expressions, join.args.get("on"))
        for name in ("where", "having", "qualify"):
            result = select.args.get(name)
            self._visit(expressions, None if result is None else result.this)
        group, order = select.args.get("group"), select.args.get("order")
        if group is not None:
            _check_parts(group, ("expressions",))
            for part in list(group.expressions):
                if not _is_place(part):
                    expressions.kind(part)
        columns = [isinstance(part.unalias(), exp.Column) for part in select.selects]
        kinds = [expressions.kind(part.unalias()) for part in select.selects]
        kinds = [kind if is_column else replace(kind, width=0) for kind, is_column in zip(kinds, columns, strict=True)]
        expressions.outputs = dict(zip((p.alias_or_name.lower() for p in select.selects), kinds, strict=True))
        for part in [] if order is None else list(order.expressions):
            if not _is_place(part.this):
                expressions.kind(part)
        return kinds

    def _values(self, values: exp.Values, outer: Relations) -> Mapping[str, Kind]:
        """The columns of VALUES, whose rows have one type in each column."""
        alias = values.args.get("alias")
        names = [name.name for name in alias.columns] if isinstance(alias, exp.TableAlias) else []
        for row in values.expressions:
            if not isinstance(row, exp.Tuple) or len(row.expressions) != len(names):
                raise NeedsSpark("VALUES without names of its columns")
        expressions = Expressions(outer, lambda tree: self.kinds(tree, outer, {}), self._short)
        by_name = dict[str, Kind]()
        for at, name in enumerate(names):
            parts = [expressions.part(row.expressions[at]) for row in values.expressions]
            by_name[name.lower()] = align(parts, "values")
        return by_name

    @staticmethod
    def _visit(expressions: Expressions, node: exp.Expr | None) -> None:
        if node is not None:
            expressions.kind(node)

    def _relation(self, relation: exp.Expr, outer: Relations, common: Relations) -> Mapping[str, Kind]:
        if isinstance(relation, exp.Subquery):
            return self._named(relation, outer, common)
        if isinstance(relation, exp.Values):
            return self._values(relation, outer)
        if not isinstance(relation, exp.Table):
            raise NeedsSpark(relation.key)
        _check_parts(relation, ("this", "alias"))
        name = relation.name
        known = common.get(name.lower()) or self._tables.get(name)
        if known is None:
            raise NeedsSpark(f"relation {name}" if name else f"{_function(relation.this)}()")
        return known


def _function(call: exp.Expr) -> str:
    return call.sql_name().lower() if isinstance(call, exp.Func) and call.key != "anonymous" else call.name


def _is_place(node: exp.Expr) -> bool:
    """Returns whether a part of GROUP BY or ORDER BY is the number of a column, which stays as it is."""
    return isinstance(node, exp.Literal) and node.is_int


def _check_parts(node: exp.Expr, known: Sequence[str]) -> None:
    for part, value in node.args.items():
        if value and part not in known:
            raise NeedsSpark(f"{part} of {node.key}")


__all__ = ["NeedsSpark", "text_of", "translated"]
