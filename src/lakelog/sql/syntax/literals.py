"""SQL literals → Python values of a column's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
from sqlglot import exp

from lakelog.errors import InvalidRequest
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
            given = _plain(node)
            if given is not None:
                return _READERS[kind.root](given, kind) if kind.root in _READERS else _integer(given, kind)
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


def _cast(given: str, node: exp.Cast) -> Literal | None:
    """The value of date'…', timestamp'…', cast('…' as date), 10L, 1.5BD; None if the cast changes it."""
    kind, sizes = node.to.this, [int(size.name) for size in node.to.expressions]
    if kind in (exp.DType.FLOAT, exp.DType.DOUBLE):
        return Decimal(float(given) if kind == exp.DType.DOUBLE else float(np.float32(given)))
    if kind in exp.DataType.NUMERIC_TYPES:
        if kind.name in BITS:
            return Decimal(_integer(given, AtomicType(kind.name)))
        precision, scale = (sizes + [10, 0])[:2] if len(sizes) != 1 else (sizes[0], 0)
        return _decimal(given, AtomicType("DECIMAL", precision=precision, scale=scale))
    if sizes or (kind in _DAYS and len(given.strip()) > len("2024-01-31")):
        return None
    if kind == exp.DType.TIMESTAMPNTZ and datetime.fromisoformat(given.strip()).tzinfo is not None:
        return None
    return _plain(node.this)


def _integer(given: Literal, kind: AtomicType) -> int:
    if kind.root not in BITS or not isinstance(given, str | Decimal):
        raise ValueError(kind.root)
    number, limit = Decimal(given), 1 << (BITS[kind.root] - 1)
    if number != number.to_integral_value() or not -limit <= number < limit:
        raise ValueError("out of range")
    return int(number)


def _real(given: Literal, kind: AtomicType) -> float:
    if not isinstance(given, str | Decimal):
        raise ValueError(kind.root)
    number = float(given)
    if math.isinf(number) and isinstance(given, Decimal):
        raise ValueError("out of range")
    return number


def _decimal(given: Literal, kind: AtomicType) -> Decimal:
    """Digits that the column cannot hold are an error: no row could be equal, and Arrow cannot compare them."""
    if not isinstance(given, str | Decimal):
        raise ValueError(kind.root)
    number = Decimal(given)
    exact = number.quantize(Decimal(1).scaleb(-(kind.scale or 0)))
    if exact != number or len(exact.as_tuple().digits) > (kind.precision or 0):
        raise ValueError("too many digits")
    return exact


def _text(given: Literal, kind: AtomicType) -> str:
    if not isinstance(given, str):
        raise ValueError(kind.root)
    return given


def _binary(given: Literal, kind: AtomicType) -> bytes:
    if isinstance(given, bytes):
        return given
    return _text(given, kind).encode()


def _boolean(given: Literal, kind: AtomicType) -> bool:
    if isinstance(given, bool):
        return given
    if _text(given, kind).lower() not in ("true", "false"):
        raise ValueError(given)
    return str(given).lower() == "true"


def _date(given: Literal, kind: AtomicType) -> date:
    return date.fromisoformat(_text(given, kind).strip())


def _time(given: Literal, kind: AtomicType) -> time:
    return time.fromisoformat(_text(given, kind).strip())


def _timestamp(given: Literal, kind: AtomicType) -> datetime:
    """A wall-clock time without zone; an instant (TIMESTAMP_LTZ) in UTC, where text without a zone is local time."""
    found = datetime.fromisoformat(_text(given, kind).strip())
    if kind.root == "TIMESTAMP_LTZ":
        return found.astimezone(UTC)
    if found.tzinfo is not None:
        raise ValueError("a time without a zone cannot have an offset")
    return found


_READERS: dict[str, Callable[[Literal, AtomicType], Literal]] = {
    "FLOAT": _real, "DOUBLE": _real, "DECIMAL": _decimal, "CHAR": _text, "VARCHAR": _text, "BINARY": _binary,
    "VARBINARY": _binary, "BOOLEAN": _boolean, "DATE": _date, "TIME": _time, "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp,
}  # fmt: skip
