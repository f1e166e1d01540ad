"""Parser of a condition in SQL text → a predicate for filters and data skipping of a scan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedStatement, did_you_mean
from lakelog.filestore.skipping.predicate import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith
from lakelog.paimon.rows.instants import instant_of
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import AtomicType, DataField, is_text
from lakelog.sql.syntax.lexer import tokenize
from lakelog.sql.syntax.literals import literal_value
from lakelog.sql.syntax.source_text import point_at
from lakelog.sql.syntax.type_parser import type_text
from lakelog.table.read.base import TableScan

_S = TypeVar("_S", bound=TableScan)
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_SWAPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ALSO = {"==": "=", "<>": "!="}
_PYTHON_TYPES = {"DATE": date, "TIME": time, "BINARY": bytes, "VARBINARY": bytes}
_MOST_ZEROS = 400
_MOST_DEPTH = 100
_WHAT_WORKS = (
    "a filter compares columns with values: =, !=, <, <=, >, >=, BETWEEN, IN (…), LIKE 'prefix%', IS [NOT] NULL, "
    "joined by AND, OR, NOT; for other conditions use SQL"
)


def parse_filter(text: str, schema: TableSchema) -> Predicate:
    """Reads text such as ``id = 1 and name like 'a%'``.

    Values are converted to the Python type of the compared column (int, float, Decimal, str, bytes, bool, date, time,
    datetime; in UTC for TIMESTAMP_LTZ). Raises InvalidSchema for an unknown column, InvalidRequest for a value that is
    incompatible with its column, UnsupportedStatement for unsupported text.
    """
    list(tokenize(text))  # reports an unclosed string
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
        return _shallow(_FilterReader(text, schema).read(tree))
    except SqlglotError as failure:
        raise UnsupportedStatement(_position(text, failure)) from None
    except RecursionError:
        raise _too_deep() from None


Condition = tuple[str, str, Any]
"""Column, operator, value."""


def filter_of(
    filter: Condition | Sequence[Condition] | Sequence[Sequence[Condition]], schema: TableSchema
) -> Predicate:
    """Reads conditions such as ``[("id", ">", 1), ("name", "in", ["a", "b"])]``; all of them must be true.

    A list of such lists is true if one of them is, as in pyarrow; one condition needs no list. Operators are those of
    Python and SQL, ``in`` and ``not in``; ``=`` and ``!=`` with None test for NULL. Raises InvalidRequest,
    InvalidSchema for an unknown column.
    """
    if not isinstance(filter, tuple | list):
        raise InvalidRequest(
            f'a filter is text, tuples or an Arrow expression, not {type(filter).__name__}: write "id > 1", '
            "[('id', '>', 1)] or pyarrow.compute.field('id') > 1"
        )
    conditions: Sequence[Any] = (
        [filter] if isinstance(filter, tuple) and filter and isinstance(filter[0], str) else filter
    )
    for part in conditions:
        if not isinstance(part, tuple | list):
            raise InvalidRequest(
                f"filter {filter!r} has {part!r}, which is no condition: write (column, operator, value)"
            )
    reader = _FilterReader("", schema)
    try:
        parts = [
            reader.read_condition(part) if isinstance(part, tuple) else filter_of(part, schema) for part in conditions
        ]
    except RecursionError:
        raise _too_deep() from None
    return Or(*parts) if parts and not isinstance(conditions[0], tuple) else And(*parts)


def predicate_of(condition: Any, schema: TableSchema) -> Predicate | None:
    """The filter that a user gives as text, as conditions or as a predicate. Raises as the two functions above."""
    if condition is None:
        return condition
    if isinstance(condition, Predicate):
        return _shallow(condition)
    return parse_filter(condition, schema) if isinstance(condition, str) else _shallow(filter_of(condition, schema))


def filtered(scan: _S, text: str | None) -> _S:
    """A scan with a filter from text; without text the scan itself. Raises as ``parse_filter``."""
    return scan if text is None else scan.where(parse_filter(text, scan.row_schema))


def _shallow(predicate: Predicate) -> Predicate:
    """The predicate; raises UnsupportedStatement if its conditions are nested too deeply to be evaluated."""
    level: list[Predicate] = [predicate]
    for _ in range(_MOST_DEPTH):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return predicate
    raise _too_deep()


def _parts(predicate: Predicate) -> tuple[Predicate, ...]:
    if isinstance(predicate, Not):
        return (predicate.part,)
    return predicate.parts if isinstance(predicate, And | Or) else ()


def _too_deep() -> UnsupportedStatement:
    return UnsupportedStatement("this filter is nested too deeply: write it with fewer brackets, or use IN (…)")


def _position(text: str, failure: SqlglotError) -> str:
    offset = 0
    if isinstance(failure, ParseError) and failure.errors and failure.errors[0].get("line"):
        problem = failure.errors[0]
        lines = text.split("\n")
        offset = sum(len(line) + 1 for line in lines[: int(problem["line"]) - 1])
        offset += max(int(problem["col"]) - len(problem.get("highlight") or ""), 0)
    return point_at(text, offset, "this filter cannot be parsed from here")


class _FilterReader:
    """Turns the tree of one filter into predicates over one table."""

    def __init__(self, text: str, schema: TableSchema) -> None:
        self._text = text
        self._schema = schema
        self._by_fold = {f.name.lower(): f for f in schema.fields}
        self._widths = schema.padded_columns

    def read(self, node: exp.Expr) -> Predicate:
        """The predicate of a boolean node."""
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.And):
            return And(*(self.read(part) for part in node.flatten()))
        if isinstance(node, exp.Or):
            return Or(*(self.read(part) for part in node.flatten()))
        if isinstance(node, exp.Not):
            return self.read(node.this).negated()
        if isinstance(node, exp.Column):
            return self._flag(node)
        return self._read_comparison(node)

    def read_condition(self, condition: tuple[Any, ...]) -> Predicate:
        """The predicate of a tuple (column, operator, value)."""
        if len(condition) != 3 or not all(isinstance(part, str) for part in condition[:2]):
            raise InvalidRequest(f"{condition!r} is not a condition: write it like ('id', '>', 1)")
        name, sign, value = condition
        column, operator = self._named(name), _ALSO.get(sign.strip().lower(), sign.strip())
        if operator in ("in", "not in"):
            if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
                raise InvalidRequest(f"{condition!r}: '{operator}' takes a list of values")
            predicate: Predicate = self._in(column, [_value_of(column, one) for one in value])
            return predicate if operator == "in" else predicate.negated()
        if value is None and operator in ("=", "!="):
            return IsNull(column.name, expected=operator == "=")
        return self._comparison(column, operator, _value_of(column, value))

    def _read_comparison(self, node: exp.Expr) -> Predicate:
        predicate = self._read_positive(node)
        return predicate.negated() if node.args.get("negate") else predicate

    def _read_positive(self, node: exp.Expr) -> Predicate:
        if type(node) in _OPERATORS:
            return self._compare(node, _OPERATORS[type(node)])
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            column = self._column(node.this)
            low, high = (literal_value(column, node.args[end]) for end in ("low", "high"))
            width = self._widths.get(column.name)  # Spark fills up no limit of BETWEEN
            return And(Compare(column.name, ">=", low, width), Compare(column.name, "<=", high, width))
        if isinstance(node, exp.In) and node.expressions:
            column = self._column(node.this)
            return self._in(column, [literal_value(column, value) for value in node.expressions])
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return IsNull(self._column(node.this).name)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
            name = self._flag(node.this).column
            return And(IsNull(name, expected=False), Compare(name, "=", bool(node.expression.this)))
        if isinstance(node, exp.Like):
            return self._like(node)
        raise self._unsupported(node)

    def _flag(self, node: exp.Expr) -> Compare:
        column = self._column(node)
        if not isinstance(column.type, AtomicType) or column.type.root != "BOOLEAN":
            raise InvalidRequest(f"column '{column.name}' is {type_text(column.type)}, not a condition: compare it")
        return Compare(column.name, "=", True)

    def _compare(self, node: exp.Expr, operator: str) -> Predicate:
        left, right = node.this, node.expression
        if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
            left, right, operator = right, left, _SWAPPED[operator]
        column = self._column(left)
        if isinstance(right, exp.Null):
            raise InvalidRequest(f"'{column.name} {operator} null' is never true: write {column.name} IS [NOT] NULL")
        return self._comparison(column, operator, literal_value(column, right))

    def _comparison(self, column: DataField, operator: str, value: Any) -> Compare:
        width = self._widths.get(column.name)
        return Compare(column.name, operator, _filled(value, width), width)

    def _in(self, column: DataField, values: Sequence[Any]) -> In:
        width = self._widths.get(column.name)
        return In(column.name, tuple(_filled(value, width) for value in values), width)

    def _like(self, node: exp.Like) -> Predicate:
        column = self._column(node.this)
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string and is_text(column.type)):
            raise self._unsupported(node)
        prefix = pattern.this[:-1] if pattern.this.endswith("%") else pattern.this
        if any(sign in prefix for sign in "%_\\"):
            raise self._unsupported(node)
        width = self._widths.get(column.name)  # LIKE sees the blanks, and fills up no pattern
        is_prefix = prefix != pattern.this
        return StartsWith(column.name, prefix, width) if is_prefix else Compare(column.name, "=", prefix, width)

    def _column(self, node: exp.Expr) -> DataField:
        if isinstance(node, exp.Paren):
            return self._column(node.this)
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star) or len(node.parts) > 1:
            raise self._unsupported(node)
        return self._named(node.name)

    def _named(self, name: str) -> DataField:
        column = self._by_fold.get(name.lower())
        if column is None:
            known = self._schema.field_names
            near = did_you_mean(name, known)
            raise InvalidSchema(f"unknown column '{name}' in filter{near} Columns: {', '.join(known)}")
        return column

    def _unsupported(self, node: exp.Expr) -> UnsupportedStatement:
        return UnsupportedStatement(f"'{node.sql(dialect='spark')}' in filter \"{self._text}\": {_WHAT_WORKS}")


def _filled(value: Any, width: int | None) -> Any:
    """A text as Spark compares it with a CHAR column: blanks fill it up to the column's length, and are no more."""
    return value if width is None or not isinstance(value, str) else value.rstrip(" ").ljust(width)


def _value_of(column: DataField, value: Any) -> Any:
    """A Python value in the column's type, as a literal of SQL is. Raises InvalidRequest."""
    value = value.item() if hasattr(value, "item") else value  # of numpy
    root = column.type.root if isinstance(column.type, AtomicType) else ""
    if isinstance(value, bool) and root == "BOOLEAN":
        return value
    if isinstance(value, float) and root in ("FLOAT", "DOUBLE"):
        return value
    if isinstance(value, float) and math.isfinite(value):
        value = Decimal(repr(value))
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return literal_value(column, exp.Literal.number(_digits(value) if isinstance(value, Decimal) else value))
    if isinstance(value, str):
        return literal_value(column, exp.Literal.string(value))
    if isinstance(value, datetime) and (root == "TIMESTAMP_LTZ" or (root == "TIMESTAMP" and value.tzinfo is None)):
        return instant_of(value) if root == "TIMESTAMP_LTZ" else value
    if type(value) is _PYTHON_TYPES.get(root):
        return value
    raise InvalidRequest(f"{value!r} is not a value for column '{column.name}' of type {type_text(column.type)}")


def _digits(value: Decimal) -> str:
    """A number as SQL has it; one with a large exponent as it is, because its zeros would fill the memory."""
    return format(value, "f") if value.is_finite() and abs(value.adjusted()) < _MOST_ZEROS else str(value)
