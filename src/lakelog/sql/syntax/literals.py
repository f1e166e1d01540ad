"""SQL literals → Python values of a column's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
from sqlglot import exp

from lakelog.errors import InvalidRequest
from lakelog.paimon.rows.instants import instant_of
from lakelog.paimon.types.types import AtomicType, DataField
from lakelog.sql.syntax.type_parser import type_text

Literal = bool | int | float | Decimal | str | bytes | date | time | datetime

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Of the types of whole numbers."""
_DAYS = (exp.DType.DATE, exp.DType.DATE32)
_EXAMPLES = {
    "BOOLEAN": "true", "DATE": "date'2024-01-31'", "TIME": "'12:30:00'", "TIMESTAMP": "'2024-01-31 12:30:00'",
    "TIMESTAMP_LTZ": "'2024-01-31 12:30:00+00:00'", "VARCHAR": "'text'", "CHAR": "'text'", "BINARY": "x'00ff'",
    "VARBINARY": "x'00ff'", "DECIMAL": "1.25", "FLOAT": "1.5", "DOUBLE": "1.5",
}  # fmt: skip


def literal_value(column: DataField, node: exp.Expr) -> Literal:
    """The value that a literal (``1``, ``'a'``, ``date'2024-01-31'``, ``x'00ff'`` …) has in this column.

    Text is read as the column's type, as Spark does when it compares. Raises InvalidRequest naming the column, its
    type, the value and an example.
    """
    kind = column.type
    if isinstance(kind, AtomicType):
        try:
            literal = _plain(node)
            if literal is not None:
                return _READERS[kind.root](literal, kind) if kind.root in _READERS else _integer(literal, kind)
        except (ValueError, ArithmeticError):
            pass
        example = f"write a value such as {_EXAMPLES.get(kind.root, '1')}"
    else:
        example = "only columns of atomic types can be compared"
    raise InvalidRequest(
        f"{node.sql(dialect='spark')} is not a value for column '{column.name}' of type {type_text(kind)}: {example}"
    )


def _plain(node: exp.Expr) -> Literal | None:
    """The value of a literal: text is text, a number is a Decimal; None for any other expression."""
    if isinstance(node, exp.Paren):
        return _plain(node.this)
    if isinstance(node, exp.Neg):
        inner = _plain(node.this)
        return inner.copy_negate() if isinstance(inner, Decimal) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.HexString):
        return bytes.fromhex(str(node.this))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _cast(str(node.this.this), node)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else Decimal(str(node.this))
    return None


def _cast(text: str, node: exp.Cast) -> Literal | None:
    """The value of date'…', timestamp'…', cast('…' as date), 10L, 1.5BD; None if the cast changes it."""
    kind, sizes = node.to.this, [int(size.name) for size in node.to.expressions]
    if kind in (exp.DType.FLOAT, exp.DType.DOUBLE):
        return Decimal(float(text) if kind == exp.DType.DOUBLE else float(np.float32(text)))
    if kind in exp.DataType.NUMERIC_TYPES:
        if kind.name in BITS:
            return Decimal(_integer(text, AtomicType(kind.name)))
        precision, scale = (sizes + [10, 0])[:2] if len(sizes) != 1 else (sizes[0], 0)
        return _decimal(text, AtomicType("DECIMAL", precision=precision, scale=scale))
    if sizes or (kind in _DAYS and len(text.strip()) > len("2024-01-31")):
        return None
    if kind == exp.DType.TIMESTAMPNTZ and datetime.fromisoformat(text.strip()).tzinfo is not None:
        return None
    return _plain(node.this)


def _integer(literal: Literal, kind: AtomicType) -> int:
    if kind.root not in BITS or not isinstance(literal, str | Decimal):
        raise ValueError(kind.root)
    number, limit = Decimal(literal), 1 << (BITS[kind.root] - 1)
    if number != number.to_integral_value() or not -limit <= number < limit:
        raise ValueError("out of range")
    return int(number)


def _real(literal: Literal, kind: AtomicType) -> float:
    if not isinstance(literal, str | Decimal):
        raise ValueError(kind.root)
    number = float(literal)
    if math.isinf(number) and isinstance(literal, Decimal):
        raise ValueError("out of range")
    return number


def _decimal(literal: Literal, kind: AtomicType) -> Decimal:
    """Digits that the column cannot hold are an error: no row could be equal, and Arrow cannot compare them."""
    if not isinstance(literal, str | Decimal):
        raise ValueError(kind.root)
    number = Decimal(literal)
    exact = number.quantize(Decimal(1).scaleb(-(kind.scale or 0)))
    if exact != number or len(exact.as_tuple().digits) > (kind.precision or 0):
        raise ValueError("too many digits")
    return exact


def _text(literal: Literal, kind: AtomicType) -> str:
    if not isinstance(literal, str):
        raise ValueError(kind.root)
    return literal


def _binary(literal: Literal, kind: AtomicType) -> bytes:
    if isinstance(literal, bytes):
        return literal
    return _text(literal, kind).encode()


def _boolean(literal: Literal, kind: AtomicType) -> bool:
    if isinstance(literal, bool):
        return literal
    if _text(literal, kind).lower() not in ("true", "false"):
        raise ValueError(literal)
    return str(literal).lower() == "true"


def _date(literal: Literal, kind: AtomicType) -> date:
    return date.fromisoformat(_text(literal, kind).strip())


def _time(literal: Literal, kind: AtomicType) -> time:
    return time.fromisoformat(_text(literal, kind).strip())


def _timestamp(literal: Literal, kind: AtomicType) -> datetime:
    """A wall-clock time without zone; an instant (TIMESTAMP_LTZ) in UTC, where text without a zone is local time."""
    moment = datetime.fromisoformat(_text(literal, kind).strip())
    if kind.root == "TIMESTAMP_LTZ":
        return instant_of(moment)
    if moment.tzinfo is not None:
        raise ValueError("a time without a zone cannot have an offset")
    return moment


_READERS: dict[str, Callable[[Literal, AtomicType], Literal]] = {
    "FLOAT": _real, "DOUBLE": _real, "DECIMAL": _decimal, "CHAR": _text, "VARCHAR": _text, "BINARY": _binary,
    "VARBINARY": _binary, "BOOLEAN": _boolean, "DATE": _date, "TIME": _time, "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp,
}  # fmt: skip
