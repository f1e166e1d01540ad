"""Scalar subqueries over one table as one subquery of all their values, which Spark runs once (query 9 of TPC-DS).

Spark itself merges such subqueries over one relation, but not those whose relations read other columns or files, or
unite Spark's scan with rows that Python workers merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from lakelog.catalog.base import Identifier
from lakelog.sql.query.metadata_queries import only_select_of
from lakelog.sql.query.references import QueryText, Reference
from lakelog.sql.runtime.query_plan import QueryPlan, Source
from lakelog.sql.syntax.lexer import tokenize
from lakelog.sql.syntax.source_text import Edit, SourceText, edited

_AGGREGATES: Final = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)
_CONDITIONS: Final = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Is, exp.And, exp.Or, exp.Not,
    exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Add, exp.Sub, exp.Mul,
)  # fmt: skip
"""Expressions of a condition, which have the same text and the same value in another place."""
_VALUES: Final = (
    *_AGGREGATES, exp.Star, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Neg, exp.Add, exp.Sub, exp.Mul,
    exp.Div,
)  # fmt: skip
_OTHER_CLAUSES: Final = ("group", "having", "order", "limit", "offset", "with", "with_", "connect", "match")
_OF_ROWS: Final = (exp.From, exp.Join, exp.In, exp.Exists, exp.Any, exp.All, exp.Lateral, exp.CTE, exp.SetOperation)
"""Parents of a subquery whose rows count, not its one value."""

ColumnsOf = Callable[[Source], Sequence[str]]
"""The columns of a source's table, also those that the query does not use."""


@dataclass(frozen=True)
class _Subquery:
    """A scalar subquery, its value and condition with bare columns; ``start`` and ``end`` are its parentheses."""

    start: int
    end: int
    source: Source
    value: exp.Expr
    condition: exp.Expr | None

    @property
    def text(self) -> str:
        """The value over the rows of several conditions."""
        value = exp.Paren(this=self.value.copy())
        for aggregate in list(value.find_all(*_AGGREGATES)):
            if self.condition is None:
                break
            chosen = exp.Filter(this=aggregate.copy(), expression=exp.Where(this=self.condition.copy()))
            aggregate.replace(chosen)
        return str(value.this.sql(dialect="spark"))


def folded(plan: QueryPlan, columns_of: ColumnsOf) -> QueryPlan:
    """The query in which scalar subqueries over one table are one; the same plan if there are none.

    A subquery has one value of plain aggregates, and reads only columns of its table. The columns of the result keep
    their names.
    """
    tables = [source.table for source in plan.sources]
    if plan.persistent or len(tables) == len(set(tables)):
        return plan
    query = _query_of(plan.text)
    groups: dict[tuple[Identifier, tuple[tuple[str, str], ...]], list[_Subquery]] = {}
    for subquery in _subqueries(query, {source.view: source for source in plan.sources}, columns_of):
        source = subquery.source
        groups.setdefault((source.table, tuple(sorted(source.options.items()))), []).append(subquery)
    edits, sources = list[Edit](), {source.view: source for source in plan.sources}
    for group in groups.values():
        if len(group) > 1:
            edits += _edits_of(group)
            for subquery in group[1:]:
                del sources[subquery.source.view]
            sources[group[0].source.view] = _source_of(group, columns_of)
    text = edited(plan.text, edits, 0, len(plan.text))
    return replace(plan, text=text, sources=tuple(sources.values())) if edits else plan


def _query_of(text: str) -> QueryText:
    """The query in a text, which may begin with EXPLAIN."""
    words = tokenize(text, 0, len(text))
    start = next((token.start for token in words if token.is_word("SELECT", "WITH")), 0)
    return QueryText.read(SourceText(text, start, len(text)))


def _edits_of(group: Sequence[_Subquery]) -> list[Edit]:
    """The edits that put a field of the common subquery in place of each of these."""
    names: dict[str, str] = {}
    for subquery in group:
        names.setdefault(subquery.text, f"v{len(names)}")
    values = ", ".join(f"'{name}', {text}" for text, name in names.items())
    conditions = [None if s.condition is None else str(s.condition.sql(dialect="spark")) for s in group]
    where = ""
    if None not in conditions:
        where = " WHERE " + " OR ".join(f"({condition})" for condition in dict.fromkeys(conditions))
    common = f"(SELECT named_struct({values}) FROM {group[0].source.view}{where})"
    return [Edit(subquery.start, subquery.end, f"{common}.{names[subquery.text]}") for subquery in group]


def _source_of(group: Sequence[_Subquery], columns_of: ColumnsOf) -> Source:
    """The read of the common subquery: the columns of all, and the rows of any."""
    sources = [subquery.source for subquery in group]
    columns: tuple[str, ...] | None = None
    if all(source.columns is not None for source in sources):
        needed = {column for source in sources for column in source.columns or ()}
        columns = tuple(column for column in columns_of(sources[0]) if column in needed)
    filters = [source.filter for source in sources]
    condition = None if None in filters else " OR ".join(f"({text})" for text in dict.fromkeys(filters))
    return replace(sources[0], columns=columns, filter=condition)


def _subqueries(query: QueryText, sources: Mapping[str, Source], columns_of: ColumnsOf) -> Iterator[_Subquery]:
    for reference in query.references() if query.tree is not None else ():
        source = sources.get(reference.name.parts[-1])
        if source is None or source.counts or source.joined:
            continue
        subquery = _subquery(query, reference, source, columns_of)
        if subquery is not None:
            yield subquery


def _subquery(query: QueryText, reference: Reference, source: Source, columns_of: ColumnsOf) -> _Subquery | None:
    """The scalar subquery that reads only this reference; None if it is another one."""
    select = only_select_of(reference)
    if select is None or reference.node is None or not _is_scalar(select):
        return None
    columns = frozenset(column.lower() for column in columns_of(source))
    where = select.args.get("where")
    (projection,) = select.expressions
    value = _bare(projection.unalias(), reference.node, columns, _VALUES)
    condition = _bare(where.this, reference.node, columns, _CONDITIONS) if where is not None else None
    if value is None or (where is not None and condition is None) or not _is_aggregated(value):
        return None
    place = _parentheses(query, reference.name.start)
    if place is None or "\\" in query.source.script[slice(*place)]:  # an escape has other text in another parser
        return None
    return _Subquery(*place, source, value, condition)


def _is_scalar(select: exp.Select) -> bool:
    """True if a SELECT of one column stands where a value does, and no result column takes its name from it."""
    subquery = select.parent
    if not isinstance(subquery, exp.Subquery) or isinstance(subquery.parent, _OF_ROWS) or subquery.parent is None:
        return False
    if len(select.expressions) != 1 or any(select.args.get(clause) for clause in _OTHER_CLAUSES):
        return False
    node: exp.Expr = subquery
    while node.parent is not None and not isinstance(node.parent, exp.Select):
        node = node.parent
    return node.arg_key != "expressions" or isinstance(node, exp.Alias)


def _is_aggregated(value: exp.Expr) -> bool:
    """True if each column is the argument of an aggregate of its own: none is computed, which might fail for a row."""
    aggregates = list(value.find_all(*_AGGREGATES))
    arguments = [aggregate.this for aggregate in aggregates]
    plain = (exp.Column, exp.Star, exp.Literal)
    is_plain = all(isinstance(a, plain) and not g.expressions for a, g in zip(arguments, aggregates, strict=True))
    inside = {id(argument) for argument in arguments}
    return bool(aggregates) and is_plain and all(id(column) in inside for column in value.find_all(exp.Column))


def _bare(
    part: exp.Expr, table: exp.Table, columns: frozenset[str], allowed: tuple[type[exp.Expr], ...]
) -> exp.Expr | None:
    """An expression with unqualified columns; None for a column of another relation, or another expression."""
    root = exp.Paren(this=part.copy())
    for column in root.find_all(exp.Column):
        is_own = not column.table or column.table.lower() == table.alias_or_name.lower()
        if not is_own or column.args.get("db") or column.name.lower() not in columns:
            return None
        column.set("table", None)
    inside: exp.Expr = root.this
    return inside if all(isinstance(node, allowed) for node in inside.walk()) else None


def _parentheses(query: QueryText, inside: int) -> tuple[int, int] | None:
    """The positions of the innermost parentheses around a position: start of the first, end of the second."""
    depth, first = 0, None
    for token in reversed([token for token in query.tokens if token.start < inside]):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0:
            first = token.start
            break
    depth = 0
    for token in (token for token in query.tokens if token.start > inside):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth < 0:
            return None if first is None else (first, token.end)
    return None
