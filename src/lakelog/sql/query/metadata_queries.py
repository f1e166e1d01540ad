"""Metadata-only and limited queries: ``count(*)`` by partition columns, and a bare LIMIT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakelog.paimon.schema.schema import TableSchema
from lakelog.sql.query.references import QueryText, Reference
from lakelog.sql.runtime.query_plan import COUNTED
from lakelog.sql.syntax.lexer import Kind, Token
from lakelog.sql.syntax.source_text import Edit

_PLAIN = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Alias, exp.Paren, exp.Neg, exp.DataType,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.From, exp.Table, exp.TableAlias, exp.Version, exp.Limit,
    exp.Offset,
)  # fmt: skip
_TESTS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Is, exp.And, exp.Or, exp.Not,
)  # fmt: skip
_COUNTED = (*_PLAIN, *_TESTS, exp.Count, exp.Star, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered)
"""Allowed expressions in a query on counts; functions might aggregate, or distinguish rows."""
_TAKEN = (
    *_PLAIN, exp.Star, exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.Concat, exp.Substring, exp.Coalesce, exp.Abs,
    exp.Round, exp.Case, exp.If, *_TESTS,
)  # fmt: skip
"""Allowed expressions in a query with a pushed LIMIT; other functions might aggregate."""

_CLAUSES = ("joins", "laterals", "windows", "qualify", "distinct", "sample", "cluster", "distribute", "sort", "hint")
_MORE_CLAUSES = ("group", "having", "where", "order", "with", "with_", "connect", "match")


@dataclass(frozen=True)
class CountedRead:
    """The partition columns of a query, and the edits that turn its ``count(*)`` into sums of counts."""

    columns: tuple[str, ...]
    edits: tuple[Edit, ...]


def counted_read(query: QueryText, reference: Reference, schema: TableSchema) -> CountedRead | None:
    """The read that answers a query over one table from the number of rows in each partition.

    None unless its only aggregates are ``count(*)`` and all its columns are partition columns.
    """
    select = only_select_of(reference)
    if select is None or query.tree is None:
        return None
    counts, calls = _by_text(select), list(_calls(query.tokens))
    if not counts or not len(counts) == len(calls) == len(list(query.tree.find_all(exp.Count))):
        return None
    inside = [node for node in select.walk() if node is not select]
    if not all(type(node) in _COUNTED or isinstance(node, exp.Cast) for node in inside):
        return None
    if any(isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count) for node in inside):
        return None
    columns = _partition_columns(select, schema)
    if columns is None or not all(map(_has_stable_name, select.expressions)):
        return None
    edits = tuple(Edit(call.start, call.end, _sum(count)) for call, count in zip(calls, counts, strict=True))
    return CountedRead(columns, edits)


def limit_of(query: QueryText, reference: Reference) -> int | None:
    """The maximum number of rows of a query without filter, order or aggregate; None for other queries."""
    select = only_select_of(reference)
    limit = None if select is None else select.args.get("limit")
    if select is None or select is not query.tree or not isinstance(limit, exp.Limit):
        return None
    if any(select.args.get(clause) for clause in _MORE_CLAUSES):
        return None
    if not all(type(node) in _TAKEN or isinstance(node, exp.Cast) for node in select.walk() if node is not select):
        return None
    offset = select.args.get("offset")
    numbers = [limit.expression, *([] if offset is None else [offset.expression])]
    if not all(isinstance(number, exp.Literal) and number.is_int for number in numbers):
        return None
    return sum(int(number.this) for number in numbers)


@dataclass(frozen=True)
class _Call:
    start: int
    end: int


def only_select_of(reference: Reference) -> exp.Select | None:
    """The SELECT that reads only the table."""
    node = reference.node
    if node is None or node.args.get("joins") or node.args.get("pivots") or node.args.get("sample"):
        return None
    select = node.find_ancestor(exp.Select)
    if not isinstance(select, exp.Select) or not isinstance(node.parent, exp.From):
        return None
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    return None if any(select.args.get(clause) for clause in _CLAUSES) else select


def _calls(tokens: Sequence[Token]) -> Iterator[_Call]:
    """The positions of ``count(*)`` and ``count(1)``."""
    for at in range(len(tokens) - 3):
        of_all = tokens[at + 2].is_symbol("*") or tokens[at + 2].kind is Kind.NUMBER
        if tokens[at].is_word("COUNT") and tokens[at + 1].is_symbol("(") and of_all and tokens[at + 3].is_symbol(")"):
            yield _Call(tokens[at].start, tokens[at + 3].end)


def _by_text(select: exp.Select) -> list[exp.Expr]:
    """The counts of a SELECT in the order of the text: projections, then the clauses after FROM."""
    clauses = ("expressions", "group", "having", "order")
    counts: list[exp.Expr] = []
    for clause in clauses:
        parts = select.args.get(clause) or ()
        for part in parts if isinstance(parts, list) else [parts]:
            if isinstance(part, exp.Expr):
                counts += [node for node in part.dfs() if isinstance(node, exp.Count)]
    return counts


def _partition_columns(select: exp.Select, schema: TableSchema) -> tuple[str, ...] | None:
    keys = {name.lower(): name for name in schema.partition_keys}
    aliases = {p.alias.lower() for p in select.expressions if isinstance(p, exp.Alias)}
    used = set()
    for column in select.find_all(exp.Column):
        name = column.name.lower()
        if name in keys:
            used.add(keys[name])
        elif name not in aliases or column.table or not _is_in_output_clause(column, select):
            return None
    return tuple(name for name in schema.partition_keys if name in used)


def _is_in_output_clause(column: exp.Column, select: exp.Select) -> bool:
    """Returns whether a column is in the SELECT's own ORDER BY or HAVING, where output names are visible."""
    clause = column.find_ancestor(exp.Order, exp.Having)
    return clause is not None and clause.parent is select


def _has_stable_name(projection: exp.Expr) -> bool:
    """Returns whether a projection keeps its name if its counts become sums."""
    return isinstance(projection, exp.Alias | exp.Count) or projection.find(exp.Count) is None


def _sum(count: exp.Expr) -> str:
    text = f"coalesce(sum({COUNTED}), 0)"
    of = count.this.this if isinstance(count.this, exp.Literal) else 1
    return f"{text} AS `count({of})`" if isinstance(count.parent, exp.Select) else text
