"""How changes of the sources reach the rows of a view: queries for the keys that they touch."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from lakelog.sql.views.keys import equalities, is_aggregate, join_kind, relations_of
from lakelog.sql.views.query import ViewQuery
from lakelog.table.views.local_plan import ADDED, KEY_ALIAS, REMOVED, TOUCHED, changed_table


def touches_keys(query: ViewQuery, key: Sequence[int]) -> str:
    """Why changes lead to a new computation of all rows; "" if the keys that they touch can be found.

    They can in one SELECT over inner and left joins of tables. A left join may add or take away the row with NULL, so
    no key column may be of its right side, and no later join may match that row to others.
    """
    select = query.tree
    if not isinstance(select, exp.Select) or select.find(exp.Subquery, exp.Exists, exp.SetOperation, exp.With):
        return "the query has a subquery, a common table expression or a set operation"
    if any(node.args.get("query") is not None for node in select.find_all(exp.In)):
        return "the query has a subquery"
    if select.find(exp.Window) or select.args.get("qualify"):
        return "a window function may depend on every row"
    if not key:
        return "there is one row for the whole query"
    if select.args.get("distinct") and is_aggregate(select):
        return "it selects the distinct ones of its groups"
    padded = set[str]()
    for relation, join in relations_of(select):
        if not isinstance(relation, exp.Table) or query.source_of(relation) is None:
            return "the query has a subquery"
        kind = "" if join is None else join_kind(join)
        if kind in ("RIGHT", "FULL", "SEMI", "ANTI"):
            return f"a {kind} JOIN"
        if kind == "LEFT":
            padded.add(relation.alias_or_name.lower())
    for at in key:
        if any(column.table.lower() in padded for column in select.selects[at].find_all(exp.Column)):
            return "a key column is of the right side of a LEFT JOIN"
    return "a JOIN may match the NULL of a LEFT JOIN" if _matches_null(select) else ""


def _matches_null(select: exp.Select) -> bool:
    """Whether a row that a LEFT JOIN has filled with NULL may find rows of a later inner join.

    It cannot if each such side has a column in an equality of the condition, also of the LEFT JOINs between.
    """
    padded, loose = set[str](), set[str]()
    for relation, join in relations_of(select):
        condition = None if join is None else join.args.get("on")
        is_left = join is not None and join_kind(join) == "LEFT"
        if condition is not None:
            aliases = {column.table.lower() for column in condition.find_all(exp.Column)} & padded
            strict = {
                side.table.lower() for pair in equalities(condition) for side in pair if isinstance(side, exp.Column)
            }
            matches = bool(aliases - strict or aliases & loose)
            if matches and not is_left:
                return True
            if matches:
                loose.add(relation.alias_or_name.lower())
        if is_left:
            padded.add(relation.alias_or_name.lower())
    return False


def touched_queries(query: ViewQuery, key: Sequence[int]) -> list[tuple[int, str, exp.Select]]:
    """(Source, side of its changes, query for the touched keys of the view), once for each use of the source."""
    select = query.tree
    assert isinstance(select, exp.Select)
    out = []
    for position, (relation, _) in enumerate(relations_of(select)):
        assert isinstance(relation, exp.Table)
        number = query.number_of(relation)
        assert number is not None
        out += [
            (number, side, _keys_of(select, key, position, changed_table(number, side))) for side in (REMOVED, ADDED)
        ]
    return out


def _keys_of(select: exp.Select, key: Sequence[int], position: int, changed: str) -> exp.Select:
    """The distinct keys of a SELECT that reads the changed rows of one relation; more keys do no harm."""
    copy = select.copy()
    relations = list(relations_of(copy))
    relations[position][0].set("this", exp.to_identifier(changed))
    join = relations[position][1]
    has_left = any(j is not None and join_kind(j) == "LEFT" for _, j in relations)
    if join is not None and join.args.get("side"):
        join.set("side", None)
    copy.set("expressions", [exp.alias_(copy.selects[at].unalias(), f"key_{n}") for n, at in enumerate(key)])
    for clause in ("group", "having", "order", *(["where"] if has_left else [])):
        copy.set(clause, None)
    return copy.distinct()


def restricted_query(query: ViewQuery, key: Sequence[int], names: Sequence[str]) -> exp.Select:
    """The query for the rows whose key is in the table ``touched``, whose columns are ``names``."""
    select = query.tree.copy()
    assert isinstance(select, exp.Select)
    same = [
        exp.NullSafeEQ(this=exp.column(exp.to_identifier(name, quoted=True), table=KEY_ALIAS), expression=part.copy())
        for name, part in zip(names, (select.selects[at].unalias() for at in key), strict=True)
    ]
    inner = exp.select("1").from_(exp.alias_(exp.table_(TOUCHED), KEY_ALIAS, table=True)).where(*same)
    restricted: exp.Select = select.where(exp.Exists(this=inner))
    return restricted
