"""Views of one source whose rows follow from its changed rows alone: filters and projections, counts and sums.

A row of a projection is that of one row of the source. Counts, and sums of whole numbers and decimals, are exact: rows
are added to them and taken from them in any order. The text of the query stays the only rule for the rows of a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from lakelog.sql.views.keys import is_aggregate
from lakelog.sql.views.query import ViewQuery
from lakelog.table.views.local_plan import ADDED, REMOVED, ROW_COUNT, SUMS, ByChanges, changed_table

Kinds = Callable[[str], Sequence[str]]
"""The types of DuckDB of the columns of a query over ``source_0``."""

_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_EXACT: Final = (*_WHOLE, "BOOLEAN", "VARCHAR", "DATE", "BLOB")
_SUMMED_DIGITS: Final = 28
"""Digits of decimals of which 10 billion have a sum of at most 38 digits."""
_FLOATS: Final = ("FLOAT", "DOUBLE")


def by_changes(query: ViewQuery, tree: exp.Query, kinds: Kinds) -> ByChanges | None:
    """The statements of a view over its changed rows, None if these do not suffice.

    ``tree`` is its query in the words of DuckDB.
    """
    if not isinstance(tree, exp.Select) or not _reads_one_table(tree):
        return None
    select = tree.copy()
    select.set("order", None)
    if is_aggregate(select) or select.args.get("distinct"):
        return _by_sums(select, kinds)
    schema = query.sources[0].schema
    if any(getattr(schema.field(name).type, "root", "") in _FLOATS for name in schema.primary_keys):
        return None  # 0.0 and -0.0 are two keys of a table, and one of a view
    return ByChanges(_over(select, REMOVED), _over(select, ADDED))


def _reads_one_table(select: exp.Select) -> bool:
    """Whether it is one SELECT over one table, without windows and subqueries."""
    from_ = select.args.get("from_")
    return (
        from_ is not None
        and isinstance(from_.this, exp.Table)
        and not any(select.args.get(clause) for clause in ("joins", "with_", "qualify"))
        and len(list(select.find_all(exp.Query))) == 1
        and select.find(exp.Window) is None
    )


def _by_sums(select: exp.Select, kinds: Kinds) -> ByChanges | None:
    group, having = select.args.get("group"), select.args.get("having")
    if select.args.get("distinct"):
        if is_aggregate(select):
            return None
        groups = [part.unalias() for part in select.selects]
    else:
        groups = [] if group is None else list(group.expressions)
    by_group = _Groups(groups)
    outputs = [by_group.over(part) for part in select.selects]
    condition = None if having is None else by_group.over(having.this)
    for clause in ("having", "distinct", "group"):
        select.set(clause, None)
    if not by_group.is_complete or not by_group.are_exact(select, kinds):
        return None
    select.set("expressions", by_group.columns)
    if groups:
        select.set("group", exp.Group(expressions=[part.copy() for part in by_group.keys]))
    rows = exp.Select(expressions=outputs).from_(exp.table_(SUMS))
    rows = rows if condition is None else rows.where(condition)
    keys, sums = tuple(by_group.keys.values()), tuple(by_group.sums.values())
    return ByChanges(_over(select, REMOVED), _over(select, ADDED), _text(rows), keys, sums)


class _Groups:
    """The groups and sums of a query, which get a column each."""

    def __init__(self, groups: Sequence[exp.Expr]) -> None:
        self.keys: dict[exp.Expr, str] = {part.copy(): f"key_{at}" for at, part in enumerate(groups)}
        self.sums: dict[exp.Expr, str] = {exp.Count(this=exp.Star()): ROW_COUNT}
        self.is_complete = True
        """False after an expression with something else than groups, counts and sums."""

    @property
    def columns(self) -> list[exp.Expr]:
        """The groups and sums, named."""
        return [exp.alias_(part.copy(), name, quoted=True) for part, name in (self.keys | self.sums).items()]

    def over(self, part: exp.Expr) -> exp.Expr:
        """An expression over the columns in place of the groups and aggregates."""
        return part.copy().transform(self._replaced)

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if node in self.keys:
            return exp.column(exp.to_identifier(self.keys[node], quoted=True))
        if isinstance(node, exp.Filter | exp.AggFunc):
            inner = node.this if isinstance(node, exp.Filter) else node
            if isinstance(inner, exp.Sum | exp.Count) and not isinstance(inner.this, exp.Distinct):
                return self._sum(node, inner)
        if isinstance(node, exp.Filter | exp.AggFunc | exp.Column):
            self.is_complete = False
        return node

    def _sum(self, node: exp.Expr, inner: exp.Expr) -> exp.Expr:
        """A count, or a sum, which is NULL without a value."""
        if isinstance(inner, exp.Count):
            return self._column(node)
        number: exp.Expr = exp.Count(this=inner.this.copy())
        if isinstance(node, exp.Filter):
            number = exp.Filter(this=number, expression=node.expression.copy())
        has_values = exp.GT(this=self._column(number), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=has_values, true=self._column(node))])

    def _column(self, node: exp.Expr) -> exp.Expr:
        return exp.column(exp.to_identifier(self.sums.setdefault(node.copy(), f"sum_{len(self.sums)}"), quoted=True))

    def are_exact(self, select: exp.Select, kinds: Kinds) -> bool:
        """Whether equal groups are one value, and sums have neither rounding nor an overflow on the way."""
        sums = [each.this if isinstance(each, exp.Filter) else each for each in self.sums]
        summed = [each.this for each in sums if isinstance(each, exp.Sum)]
        probe = select.copy()
        probe.set("expressions", [exp.alias_(part.copy(), f"c{at}") for at, part in enumerate([*self.keys, *summed])])
        types = kinds(_text(probe)) if self.keys or summed else ()
        groups, values = types[: len(self.keys)], types[len(self.keys) :]
        return all(kind in _EXACT or kind.startswith(("DECIMAL", "TIMESTAMP")) for kind in groups) and all(
            kind in _WHOLE or 0 < _digits(kind) <= _SUMMED_DIGITS for kind in values
        )


def _digits(kind: str) -> int:
    """The digits of a type DECIMAL, 0 for another one."""
    return int(kind[len("DECIMAL(") :].partition(",")[0]) if kind.startswith("DECIMAL(") else 0


def _over(select: exp.Select, side: str) -> str:
    """The text of a query over the changed rows in place of its source."""
    copy = select.copy()
    for table in copy.find_all(exp.Table):
        table.set("this", exp.to_identifier(changed_table(0, side)))
    return _text(copy)


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="duckdb", identify=True)
