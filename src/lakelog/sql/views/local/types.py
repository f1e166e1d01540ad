"""Spark's types of the values in a view's query, and its rules for values of different types (ANSI)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from lakelog.paimon.types.types import AtomicType, DataType

WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
"""From the narrowest to the widest."""
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_MOST_DIGITS: Final = 38
_EXACT_DIGITS: Final = 15
"""Decimals with so many digits have one nearest DOUBLE in any engine."""
_MICROS: Final = 6
_ROOTS: Final = {"VARCHAR": "STRING", "TIMESTAMP_LTZ": "TIMESTAMP", "TIMESTAMP": "TIMESTAMP_NTZ"}
_PLAIN: Final = ("BOOLEAN", *WHOLE, "FLOAT", "DOUBLE", "DATE", "BINARY", "VARBINARY")
_DUCKDB: Final = {"STRING": "VARCHAR", "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP", "BINARY": "BLOB"}


class NeedsSpark(Exception):
    """A query has a part whose meaning DuckDB may not share; the text says which."""


@dataclass(frozen=True)
class Kind:
    """A type in Spark's words. OTHER is one that is only passed on, ANY that of a key that changes touch."""

    root: str
    digits: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.digits},{self.scale})" if self.root == "DECIMAL" else self.root

    @property
    def is_number(self) -> bool:
        return self.root in (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL")

    @property
    def duckdb(self) -> exp.DataType:
        """The type in DuckDB."""
        return exp.DataType.build(_DUCKDB.get(self.root, str(self)), dialect="duckdb")

    @property
    def decimal(self) -> Kind:
        """The DECIMAL that holds all values of a whole number; a DECIMAL itself."""
        return self if self.root == "DECIMAL" else Kind("DECIMAL", _DIGITS[self.root], 0)


STRING: Final = Kind("STRING")
BOOLEAN: Final = Kind("BOOLEAN")
INT: Final = Kind("INT")
BIGINT: Final = Kind("BIGINT")
DOUBLE: Final = Kind("DOUBLE")
DATE: Final = Kind("DATE")
TIMESTAMP: Final = Kind("TIMESTAMP")
TIMESTAMP_NTZ: Final = Kind("TIMESTAMP_NTZ")
NULL: Final = Kind("NULL")
ANY: Final = Kind("ANY")
OTHER: Final = Kind("OTHER")


def kind_of(type_: DataType) -> Kind:
    """The kind of a column of a table. Spark compares a CHAR without the spaces at its end: it is only passed on."""
    if not isinstance(type_, AtomicType):
        return OTHER
    if type_.root == "DECIMAL":
        return Kind("DECIMAL", type_.precision or 0, type_.scale or 0)
    if type_.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (type_.precision or 0) > _MICROS:
        return OTHER
    if type_.root in ("BINARY", "VARBINARY"):
        return Kind("BINARY")
    root = _ROOTS.get(type_.root, type_.root)
    return Kind(root) if root in (*_PLAIN, *_ROOTS.values()) else OTHER


def decimal(digits: int, scale: int) -> Kind:
    """A DECIMAL. Raises NeedsSpark if Spark would take digits behind the point away."""
    if digits > _MOST_DIGITS:
        raise NeedsSpark("a decimal of more than 38 digits")
    return Kind("DECIMAL", digits, scale)


def wider(one: Kind, other: Kind) -> Kind:
    """The DECIMAL that holds all values of two. Raises NeedsSpark."""
    one, other = one.decimal, other.decimal
    scale = max(one.scale, other.scale)
    return decimal(max(one.digits - one.scale, other.digits - other.scale) + scale, scale)


def literal_kind(text: str) -> Kind:
    """The type of a number in a query."""
    if "e" in text.lower():
        return DOUBLE
    if "." in text:
        front, _, rest = text.partition(".")
        return decimal(max(len(front.lstrip("0")) + len(rest), 1), len(rest))
    value = int(text)
    if -(2**31) <= value < 2**31:
        return INT
    return BIGINT if -(2**63) <= value < 2**63 else decimal(len(text.lstrip("-")), 0)


def unified(kinds: Sequence[Kind], what: str) -> Kind:
    """The type of a value that is one of several, as of COALESCE. Raises NeedsSpark."""
    some = [kind for kind in dict.fromkeys(kinds) if kind != NULL]
    if not some:
        return NULL
    result = some[0]
    for other in some[1:]:
        result = _unified(result, other, what)
    return result


def _unified(one: Kind, other: Kind, what: str) -> Kind:
    if not (one.is_number and other.is_number):
        raise NeedsSpark(f"{what} of {one} and {other}")
    roots = (one.root, other.root)
    if set(roots) <= set(WHOLE):
        return Kind(max(roots, key=WHOLE.index))
    if set(roots) & {"FLOAT", "DOUBLE"}:
        check_exact(one)
        check_exact(other)
        return DOUBLE
    return wider(one, other)


def check_exact(kind: Kind) -> None:
    """Raises NeedsSpark for a decimal whose value as a DOUBLE depends on the engine."""
    if kind.root == "DECIMAL" and kind.digits > _EXACT_DIGITS:
        raise NeedsSpark(f"a {kind} as a DOUBLE")


def sum_kind(kind: Kind) -> Kind:
    """Spark's type of a sum. Raises NeedsSpark."""
    if kind.root in WHOLE:
        return BIGINT
    if kind.root in ("FLOAT", "DOUBLE"):
        return DOUBLE
    if kind.root == "DECIMAL":
        return Kind("DECIMAL", min(_MOST_DIGITS, kind.digits + 10), kind.scale)
    raise NeedsSpark(f"sum of {kind}")


def arithmetic_kind(node: exp.Expr, one: Kind, other: Kind) -> Kind:
    """Spark's type of a sum, difference or product of two numbers. Raises NeedsSpark."""
    if "DECIMAL" not in (one.root, other.root) or {one.root, other.root} & {"FLOAT", "DOUBLE"}:
        return unified([one, other], node.key)
    one, other = one.decimal, other.decimal
    if isinstance(node, exp.Mul):
        return decimal(one.digits + other.digits + 1, one.scale + other.scale)
    result = wider(one, other)
    return decimal(result.digits + 1, result.scale)
