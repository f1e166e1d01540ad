"""Conditions and values that this process evaluates as Spark does; anything else is refused.

A condition is one of a scan's filter, with literals of the column's own kind. A value is such a literal or a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.filestore.skipping.predicate import Predicate
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.syntax.literals import BITS, literal_value
from lakelog.sql.syntax.type_parser import type_text
from lakelog.state.spark_functions import NeedsSpark

_TEXTS: Final = {
    "CHAR": ".*",
    "VARCHAR": ".*",
    "DATE": r"\d{4}-\d\d-\d\d",
    "TIMESTAMP": r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?",
    "TIMESTAMP_LTZ": r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?",
}
"""Type → the texts that Spark and Python read alike."""
_NUMBERS: Final = (*BITS, "DECIMAL", "DOUBLE")


def parsed(text: str) -> exp.Expr:
    """The tree of an expression or a query. Raises NeedsSpark if it cannot be parsed, and for EXPLAIN."""
    if re.match(r"explain\b", text.lstrip(), re.IGNORECASE):
        raise NeedsSpark  # sqlglot would warn
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError):
        raise NeedsSpark("a text that cannot be parsed here") from None


def column_of(node: exp.Expr, schema: TableSchema, alias: str) -> DataField | None:
    """The column that ``name`` or ``alias.name`` refers to; None for anything else."""
    if not isinstance(node, exp.Column) or len(node.parts) > 2 or isinstance(node.this, exp.Star):
        return None
    if node.table and node.table.lower() != alias.lower():
        return None
    return next((field for field in schema.fields if field.name.lower() == node.name.lower()), None)


def literal_of(node: exp.Expr, column: DataField) -> Any:
    """The value of a literal in a column. Raises NeedsSpark if Spark would convert it in another way, or refuse it."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Null):
        return None
    inner = node.this if isinstance(node, exp.Neg | exp.Cast) else node
    root = column.type.root if isinstance(column.type, AtomicType) else ""
    if isinstance(node, exp.Cast):
        fits = node.to.sql("spark") == root and root in ("DATE", "TIMESTAMP") and isinstance(inner, exp.Literal)
    elif isinstance(node, exp.Boolean):
        fits = root == "BOOLEAN"
    else:
        fits = isinstance(inner, exp.Literal) and (root in _TEXTS if inner.is_string else root in _NUMBERS)
    if not fits or (inner.is_string and not re.fullmatch(_TEXTS.get(root, ""), str(inner.this), re.DOTALL)):
        raise _of_value(node, column)
    if root == "DOUBLE" and "e" in str(inner.this).lower():
        raise _of_value(
            node, column
        )  # a double, which has a zero with a sign; other numbers are decimals, which do not
    try:
        value = literal_value(column, node)
    except InvalidRequest:
        raise _of_value(node, column) from None
    if isinstance(value, datetime) and value.microsecond % 10 ** max(
        0, 6 - (getattr(column.type, "precision", 6) or 0)
    ):
        raise _of_value(node, column)  # digits that the column does not have
    return value + 0.0 if isinstance(value, float) else value


def _of_value(node: exp.Expr, column: DataField) -> NeedsSpark:
    return NeedsSpark(f"the value {node.sql('spark')} in column '{column.name}' of type {type_text(column.type)}")


def condition_of(text: str | None, schema: TableSchema, alias: str) -> Predicate | None:
    """The predicate of a condition. Raises NeedsSpark, InvalidSchema for an unknown column."""
    if text is None:
        return None
    tree = parsed(text)
    for node in tree.find_all(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between):
        sides = (node.this, node.args.get("expression"), *node.expressions, node.args.get("low"), node.args.get("high"))
        columns = [found for side in sides if side is not None and (found := column_of(side, schema, alias))]
        others = [side for side in sides if side is not None and not isinstance(side, exp.Column)]
        if len(columns) != 1 or len(others) + 1 != sum(side is not None for side in sides):
            raise NeedsSpark(f"the condition {node.sql('spark')}")
        for other in others:
            if literal_of(other, columns[0]) is None:
                raise NeedsSpark(f"the condition {node.sql('spark')}")
    for column in tree.find_all(exp.Column):
        if column.table and column.table.lower() != alias.lower():
            raise NeedsSpark(f"column {column.sql('spark')}")
        column.set("table", None)
    try:
        return parse_filter(tree.sql(dialect="spark"), schema)
    except InvalidSchema:
        raise
    except InvalidRequest:
        raise NeedsSpark(f"the condition {text}") from None


def values_of(texts: Mapping[str, str], schema: TableSchema, alias: str) -> dict[str, Any]:
    """New values by column: literals as Python values, and ``DataField`` for a column of the same type.

    Raises NeedsSpark.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        column, node = schema.field(name), parsed(text)
        while isinstance(node, exp.Paren):
            node = node.this
        other = column_of(node, schema, alias)
        if other is not None and other.type.with_nullable(True) != column.type.with_nullable(True):
            raise _of_value(node, column)
        values[name] = other if other is not None else literal_of(node, column)
    return values
