"""The columns that identify a row of a query: what makes its rows unique, and whether they may be NULL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.types.types import DataField
from lakelog.sql.query.references import cte_of
from lakelog.sql.views.query import ViewQuery, ViewSource
from lakelog.table.views.definition import ViewDefinition

Place = tuple[str, str]
"""A column of a relation in FROM: (alias, column), both in lower case."""


@dataclass(frozen=True)
class RowKey:
    """Positions of the output columns that identify a row, and whether one of them may be NULL.

    With ``of_branch`` they identify a row of one branch of a UNION ALL.
    """

    positions: tuple[int, ...]
    is_nullable: bool
    of_branch: bool = False


def row_key_of(query: ViewQuery) -> RowKey:
    """The key of the rows of a view. Raises UnsupportedFeature, which says what to add to the query."""
    if branches := branches_of(query.tree):
        return RowKey(tuple(sorted({at for branch in branches for at in _key(query, branch)})), True, of_branch=True)
    positions = _key(query, query.tree)
    nullable = any(not _is_not_null(query, query.tree, at) for at in positions)
    return RowKey(tuple(positions), nullable or not positions)


def _key(query: ViewQuery, tree: exp.Expr) -> list[int]:
    """The key of a query, by position. Raises UnsupportedFeature."""
    tree = _unwrapped(tree)
    if isinstance(tree, exp.SetOperation):
        if isinstance(tree, exp.Union) and not tree.args.get("distinct"):
            raise UnsupportedFeature(
                "UNION ALL below another operation of a materialized view: its equal rows have no key. Use UNION, or "
                "group its rows"
            )
        return list(range(len(tree.selects)))
    if not isinstance(tree, exp.Select):
        raise UnsupportedFeature(f"{tree.key.upper()} in a materialized view is not supported")
    if tree.args.get("distinct"):
        if tree.args["distinct"].args.get("on"):
            raise UnsupportedFeature("DISTINCT ON in a materialized view: use row_number() with a unique order")
        return list(range(len(tree.selects)))
    group = tree.args.get("group")
    if group is not None:
        return _group_key(tree, group)
    if is_aggregate(tree):
        return []
    return _relation_key(query, tree)


def branches_of(tree: exp.Expr) -> list[exp.Select]:
    """The branches of a query that is nothing but a UNION ALL of SELECTs; none for another one."""
    tree = _unwrapped(tree)
    if isinstance(tree, exp.Union) and not tree.args.get("distinct") and not tree.args.get("order"):
        sides = [_unwrapped(side) for side in (tree.this, tree.expression)]
        branches = [[side] if isinstance(side, exp.Select) else branches_of(side) for side in sides]
        return [*branches[0], *branches[1]] if all(branches) else []
    return []


def is_aggregate(select: exp.Select) -> bool:
    """Whether a SELECT folds its rows: GROUP BY, or an aggregate that is no window function."""
    if select.args.get("group"):
        return True
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(
        isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window) and not _in_window(node, part)
        for part in parts
        for node in part.walk(prune=lambda n: isinstance(n, exp.Query))
    )


def _in_window(node: exp.Expr, top: exp.Expr) -> bool:
    above = node.parent
    while above is not None and node is not top:
        if isinstance(above, exp.Window):
            return above.this is node or isinstance(above.this, exp.Filter | exp.IgnoreNulls)
        node, above = above, above.parent
    return False


def _group_key(select: exp.Select, group: exp.Group) -> list[int]:
    if any(group.args.get(kind) for kind in ("rollup", "cube", "grouping_sets", "all", "totals")):
        raise UnsupportedFeature("ROLLUP, CUBE and GROUPING SETS in a materialized view: create one view for each set")
    positions = []
    for expression in group.expressions:
        if isinstance(expression, exp.Literal):
            continue
        at = next((i for i, part in enumerate(select.selects) if part.unalias() == expression), None)
        if at is None:
            raise UnsupportedFeature(
                f"a materialized view needs its GROUP BY expressions as columns: add {expression.sql(dialect='spark')} "
                "to SELECT"
            )
        positions.append(at)
    return positions


def _relation_key(query: ViewQuery, select: exp.Select) -> list[int]:
    """The key of a SELECT without aggregation: the keys of its relations, as far as no join decides them."""
    same = _equal_columns(query, select)
    needed: list[Place] = []
    for position, (relation, join) in enumerate(relations_of(select)):
        kind = "" if join is None else join_kind(join)
        if kind in ("SEMI", "ANTI"):
            continue
        alias = relation.alias_or_name.lower()
        key = [(alias, name) for name in _key_names(query, relation)]
        if position and kind in ("INNER", "LEFT") and key and _decides(query, select, join, key):
            continue
        needed += key
    positions = []
    for place in needed:
        at = _output_of(select, same.get(place, {place}))
        if at is None:
            raise UnsupportedFeature(
                f"a materialized view needs the keys of the tables that it joins as columns: add {place[0]}.{place[1]} "
                "to SELECT"
            )
        positions.append(at)
    return sorted(set(positions))


def relations_of(select: exp.Select) -> Iterator[tuple[exp.Expr, exp.Join | None]]:
    """The relations of FROM in their order, each with its join (None: the first)."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise UnsupportedFeature("a materialized view needs a table in FROM")
    yield source.this, None
    for join in select.args.get("joins") or ():
        yield join.this, join


def join_kind(join: exp.Join) -> str:
    """INNER, LEFT, RIGHT, FULL, SEMI, ANTI; a comma and CROSS are INNER."""
    kind, side = str(join.args.get("kind") or "").upper(), str(join.args.get("side") or "").upper()
    if kind in ("SEMI", "ANTI"):
        return kind
    return side or "INNER"


def _key_names(query: ViewQuery, relation: exp.Expr) -> list[str]:
    """The names of the key of a relation in FROM. Raises UnsupportedFeature for one without a key."""
    inner = definition_of(query, relation)
    if isinstance(inner, ViewSource):
        if not inner.schema.is_keyed:
            raise UnsupportedFeature(
                f"table {inner.name} has no primary key, so nothing identifies the rows of the view: group them, or "
                "select DISTINCT ones"
            )
        view = ViewDefinition.of(inner.schema)
        return [name.lower() for name in (inner.schema.primary_keys if view is None else view.key)]
    names = [part.alias_or_name.lower() for part in inner.selects]
    return [names[at] for at in _key(query, inner)]


def definition_of(query: ViewQuery, relation: exp.Expr) -> ViewSource | exp.Query:
    """The table of a relation in FROM, or the query of a subquery or common table expression."""
    if isinstance(relation, exp.Table):
        source = query.source_of(relation)
        if source is not None:
            return source
        common = cte_of(relation)
        if common is not None and isinstance(common.this, exp.Query):
            return common.this
    if isinstance(relation, exp.Subquery) and isinstance(relation.this, exp.Query):
        return relation.this
    raise UnsupportedFeature(f"{relation.key.upper()} in FROM of a materialized view is not supported")


def _decides(query: ViewQuery, select: exp.Select, join: exp.Join | None, key: Sequence[Place]) -> bool:
    """Whether the condition of a join matches at most one row of its relation: it compares the whole key."""
    condition = None if join is None else join.args.get("on")
    if condition is None:
        return False
    alias, compared = key[0][0], set[Place]()
    for left, right in _equal_places(query, select, condition):
        compared |= {one for one, other in ((left, right), (right, left)) if one[0] == alias != other[0]}
    return set(key) <= compared


_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_EXACT: Final = ("VARCHAR", "DATE", "DECIMAL", "BOOLEAN", "VARBINARY", "TIMESTAMP", "TIMESTAMP_LTZ")


def _equal_places(query: ViewQuery, select: exp.Select, condition: exp.Expr) -> Iterator[tuple[Place, Place]]:
    """The pairs of columns that a condition makes equal, of types in which equal values are one value.

    A text that equals a number may have other digits than another one that does.
    """
    for left, right in equalities(condition):
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            roots = _root(query, select, _place(left)), _root(query, select, _place(right))
            if (roots[0] == roots[1] and roots[0] in _EXACT) or set(roots) <= set(_WHOLE):
                yield _place(left), _place(right)


def _root(query: ViewQuery, select: exp.Select, place: Place) -> str | None:
    """The root of the type of a column of a relation in FROM, None if it is an expression."""
    field = _field(query, select, place)
    return None if field is None else getattr(field.type, "root", None)


def _field(query: ViewQuery, select: exp.Select, place: Place) -> DataField | None:
    """The column of a source that a column of a relation in FROM is, None if it is an expression."""
    relation = next((r for r, _ in relations_of(select) if r.alias_or_name.lower() == place[0]), None)
    if relation is None:
        return None
    below = definition_of(query, relation)
    if isinstance(below, ViewSource):
        return next((field for field in below.schema.fields if field.name.lower() == place[1]), None)
    names = [part.alias_or_name.lower() for part in below.selects]
    return source_field(query, below, names.index(place[1])) if place[1] in names else None


def source_field(query: ViewQuery, tree: exp.Expr, at: int) -> DataField | None:
    """The column of a source that an output column is, None if it is an expression."""
    tree = _unwrapped(tree)
    if not isinstance(tree, exp.Select):
        return None
    part = tree.selects[at].unalias()
    return _field(query, tree, _place(part)) if isinstance(part, exp.Column) else None


def equalities(condition: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The equalities that a condition implies."""
    parts = condition.flatten() if isinstance(condition, exp.And) else [condition]
    for part in parts:
        inner = part.unnest()
        if isinstance(inner, exp.And):
            yield from equalities(inner)
        elif isinstance(inner, exp.EQ):
            yield inner.this, inner.expression


def _equal_columns(query: ViewQuery, select: exp.Select) -> dict[Place, set[Place]]:
    """Column → the columns that are equal to it in each row: by WHERE, and by the conditions of inner joins."""
    joins = [(join, join_kind(join)) for _, join in relations_of(select) if join is not None]
    conditions = [join.args.get("on") for join, kind in joins if kind == "INNER"]
    if any(kind in ("LEFT", "RIGHT", "FULL") for _, kind in joins):
        conditions = []  # an outer join may add NULL to one side
    where = select.args.get("where")
    conditions.append(None if where is None else where.this)
    out: dict[Place, set[Place]] = {}
    for condition in conditions:
        for left, right in () if condition is None else _equal_places(query, select, condition):
            both = out.get(left, {left}) | out.get(right, {right})
            out |= dict.fromkeys(both, both)
    return out


def _place(column: exp.Column) -> Place:
    return column.table.lower(), column.name.lower()


def _output_of(select: exp.Select, places: set[Place]) -> int | None:
    for at, part in enumerate(select.selects):
        inner = part.unalias()
        if isinstance(inner, exp.Column) and _place(inner) in places:
            return at
    return None


def _unwrapped(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    return tree


def _is_not_null(query: ViewQuery, tree: exp.Expr, at: int) -> bool:
    """Whether an output column can be seen not to be NULL."""
    tree = _unwrapped(tree)
    if isinstance(tree, exp.SetOperation):
        return _is_not_null(query, tree.this, at) and _is_not_null(query, tree.expression, at)
    if not isinstance(tree, exp.Select):
        return False
    inner = tree.selects[at].unalias()
    if isinstance(inner, exp.Count | exp.RowNumber) or (isinstance(inner, exp.Literal) and not inner.is_string):
        return True
    if not isinstance(inner, exp.Column):
        return False
    alias, name = _place(inner)
    is_padded = False
    known: exp.Expr | None = None
    for relation, join in relations_of(tree):
        kind = "" if join is None else join_kind(join)
        if relation.alias_or_name.lower() == alias:
            known, is_padded = relation, kind in ("LEFT", "FULL")
        elif kind in ("RIGHT", "FULL"):
            is_padded = True
    if known is None or is_padded:
        return False
    below = definition_of(query, known)
    if isinstance(below, ViewSource):
        field = next((f for f in below.schema.fields if f.name.lower() == name), None)
        return field is not None and not field.type.nullable
    names = [part.alias_or_name.lower() for part in below.selects]
    return name in names and _is_not_null(query, below, names.index(name))
