"""Which conditions of a query a table read may apply itself, to skip partitions, buckets and files.

Spark can hand filters to a Python source, but the rows that one action has filtered stay filtered for the next action
on the same DataFrame (seen with 4.2 and 4.3: the pruned read is kept with the relation), so lakelog takes the
conditions from the text. Spark still applies all of them: a condition that is left out costs time, never rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from sqlglot import exp

from lakelog.errors import LakelogError
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataType
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.query.predicate_widening import widen_comparison

_SIMPLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like)
_PARTS = (
    exp.And,
    exp.Or,
    exp.Paren,
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Neg,
    exp.Cast,
    exp.DataType,
    exp.Boolean,
)
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_TEXTS = frozenset({"VARCHAR", "CHAR"})


def pushed_predicate(relation: exp.Table, schema: TableSchema) -> str | None:
    """The AND-ed conditions of the WHERE next to the relation that only look at its columns, as text for
    ``parse_filter``.

    Only conditions that no NULL satisfies: so they may go below an outer join, too. None when there are none.
    """
    alias = relation.args.get("alias")
    if relation.args.get("pivots") or relation.args.get("sample") or (alias is not None and alias.args.get("columns")):
        return None  # names mean something else than the table's columns, or rows are chosen before the condition
    select = relation.find_ancestor(exp.Select)
    if not isinstance(select, exp.Select) or not isinstance(where := select.args.get("where"), exp.Where):
        return None
    alone = not select.args.get("joins") and not select.args.get("laterals")
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    texts = [text for part in parts if (text := _text(part, relation, schema, alone)) is not None]
    return " AND ".join(texts) or None


def _text(part: exp.Expr, relation: exp.Table, schema: TableSchema, alone: bool) -> str | None:
    types = {f.name.lower(): f.type for f in schema.fields}
    for column in part.find_all(exp.Column):
        qualified = column.table.lower() == relation.alias_or_name.lower() and not column.args.get("db")
        if not (qualified or (alone and not column.table)) or column.name.lower() not in types:
            return None
    bare = _bare(part, types)
    if bare is None or not all(isinstance(node, (*_SIMPLE, *_PARTS)) for node in bare.walk()):
        return None
    text = f"({bare.sql(dialect='spark')})"
    try:
        parse_filter(text, schema)
    except LakelogError:
        return None
    return text


def _bare(part: exp.Expr, types: Mapping[str, DataType]) -> exp.Expr | None:
    """The condition with the names of columns alone, and with comparisons that Spark makes as they stand here.

    None for a comparison that means something else here.
    """
    root = exp.Paren(this=part.copy())
    for column in root.find_all(exp.Column):
        column.set("table", None)
    for node in list(root.find_all(*_SIMPLE)):
        columns = list(node.find_all(exp.Column))
        if len({c.name.lower() for c in columns}) != 1:
            return None
        wide = widen_comparison(node, types) if len(columns) == 1 else None
        if wide is not None:
            node.replace(wide)
        elif not _literals_fit(node, types[columns[0].name.lower()]):
            return None
    inside: exp.Expr = root.this
    return inside


def _literals_fit(node: exp.Expr, kind: DataType) -> bool:
    """Whether Spark compares without turning the column into another type."""
    root = kind.root if isinstance(kind, AtomicType) else ""
    if node.find(exp.Cast) and root != "DATE":
        return False
    if root in ("FLOAT", "DOUBLE") and not isinstance(node, exp.EQ | exp.In):
        return False  # in Spark NaN is larger than every number
    if node.find(exp.Boolean):
        return root == "BOOLEAN"
    exact = {"FLOAT": 1 << 24, "DOUBLE": 1 << 53}.get(root)
    for literal in node.find_all(exp.Literal):
        if exact is not None and not literal.is_string and abs(Decimal(literal.this)) > exact:
            return False  # Spark may round it to the column's type
        fits = root in (*_TEXTS, "DATE") if literal.is_string else root in _NUMBERS
        if not fits or (not literal.is_string and root not in ("FLOAT", "DOUBLE", "DECIMAL") and not literal.is_int):
            return False
    return True
