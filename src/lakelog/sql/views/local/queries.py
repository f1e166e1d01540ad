"""Spark's SQL in the words of DuckDB: only what has the same results there.

Everything else raises NeedsSpark, which says why; Spark then computes the rows of the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from lakelog.sql.views.local.expressions import Expressions
from lakelog.sql.views.local.types import ANY, NULL, OTHER, Kind, NeedsSpark, kind_of, unified
from lakelog.sql.views.query import ViewQuery, ViewSource
from lakelog.table.views.local_plan import ADDED, REMOVED, TOUCHED, changed_table, source_table

Relations = Mapping[str, Mapping[str, Kind]]
"""Alias of a relation → its columns, all in lower case."""

_CLAUSES: Final = (
    "with_", "expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct", "order", "kind",
)  # fmt: skip
"""Parts of a SELECT with the same meaning in both."""
_JOIN_PARTS: Final = ("this", "on", "kind", "side")
_SET_PARTS: Final = ("with_", "this", "expression", "distinct", "order")


def local_query(query: ViewQuery, tree: exp.Query) -> str:
    """The text of a query over the sources for DuckDB; its columns have Spark's types. Raises NeedsSpark."""
    return str(local_tree(query, tree).sql(dialect="duckdb", identify=True))


def local_tree(query: ViewQuery, tree: exp.Query) -> exp.Query:
    """As ``local_query``, before it is a text."""
    copy = tree.copy()
    kinds = _Queries(query.sources).kinds(copy, {}, {})
    _cast_outputs(copy, kinds)
    return copy


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
                name = part.alias_or_name
                part.replace(exp.alias_(exp.Cast(this=inner.copy(), to=kind.duckdb), name, quoted=True))


class _Queries:
    """Checks and translates the queries of a tree; each from the inside out."""

    def __init__(self, sources: Sequence[ViewSource]) -> None:
        self._tables: dict[str, Mapping[str, Kind]] = {}
        for at, source in enumerate(sources):
            columns = {f.name.lower(): kind_of(f.type) for f in source.schema.fields}
            names = (source_table(at), *(changed_table(at, side) for side in (REMOVED, ADDED)))
            self._tables |= dict.fromkeys(names, columns)

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
        expressions = Expressions(seen, lambda tree: self.kinds(tree, seen, common))
        for join in joins:
            _check_parts(join, _JOIN_PARTS)
            self._visit(expressions, join.args.get("on"))
        for name in ("where", "having", "qualify"):
            result = select.args.get(name)
            self._visit(expressions, None if result is None else result.this)
        group = select.args.get("group")
        if group is not None:
            _check_parts(group, ("expressions",))
        for clause in (group, select.args.get("order")):
            for part in [] if clause is None else list(clause.expressions):
                expressions.kind(part)
        return [expressions.kind(part.unalias()) for part in select.selects]

    @staticmethod
    def _visit(expressions: Expressions, node: exp.Expr | None) -> None:
        if node is not None:
            expressions.kind(node)

    def _relation(self, relation: exp.Expr, outer: Relations, common: Relations) -> Mapping[str, Kind]:
        if isinstance(relation, exp.Subquery):
            return self._named(relation, outer, common)
        if not isinstance(relation, exp.Table):
            raise NeedsSpark(relation.key)
        _check_parts(relation, ("this", "alias"))
        name = relation.name
        if name == TOUCHED:
            return _AnyColumns()
        known = common.get(name.lower()) or self._tables.get(name)
        if known is None:
            raise NeedsSpark(f"relation {name}")
        return known


class _AnyColumns(dict[str, Kind]):
    """The columns of the touched keys, which have the types of the view's key."""

    def __missing__(self, name: str) -> Kind:
        return ANY


def _check_parts(node: exp.Expr, known: Sequence[str]) -> None:
    for part, value in node.args.items():
        if value and part not in known:
            raise NeedsSpark(f"{part} of {node.key}")


__all__ = ["NeedsSpark", "local_query", "local_tree"]
