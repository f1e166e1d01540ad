"""Spark's types of the values in a query, and its rules for values of different types (ANSI)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lakelog.paimon.types.types import AtomicType, DataType, RowType
from lakelog.state.spark_functions import NeedsSpark

WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
"""From the narrowest to the widest."""
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_MOST_DIGITS: Final = 38
_KEPT_SCALE: Final = 6
"""Digits behind the point that Spark keeps in a DECIMAL that is too long."""
_EXACT_DIGITS: Final = 15
"""Decimals with so many digits have one nearest DOUBLE in any engine."""
_MICROS: Final = 6
_ROOTS: Final = {"VARCHAR": "STRING", "TIMESTAMP_LTZ": "TIMESTAMP", "TIMESTAMP": "TIMESTAMP_NTZ"}
_PLAIN: Final = ("BOOLEAN", *WHOLE, "FLOAT", "DOUBLE", "DATE", "BINARY", "VARBINARY")
_ARROW: Final = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"), "NULL": pa.null(),
}  # fmt: skip
_DUCKDB: Final = {"STRING": "VARCHAR", "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP", "BINARY": "BLOB"}


@lru_cache(maxsize=512)
def _built(text: str) -> exp.DataType:
    """A type of DuckDB; the parser of a type takes longer than that of a small query."""
    return exp.DataType.build(text, dialect="duckdb")


@dataclass(frozen=True)
class Kind:
    """A type in Spark's words. OTHER is one that is only passed on, ANY that of a key that changes touch.

    ``parts`` are the fields of a struct by their name in lower case. ``width`` is the length of a CHAR column, whose
    values have blanks up to it; 0 for every other value.
    """

    root: str
    digits: int = 0
    scale: int = 0
    parts: Mapping[str, Kind] = field(default_factory=dict, compare=False)
    width: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"DECIMAL({self.digits},{self.scale})" if self.root == "DECIMAL" else self.root

    @property
    def is_number(self) -> bool:
        return self.root in (*WHOLE, "FLOAT", "DOUBLE", "DECIMAL")

    @property
    def duckdb(self) -> exp.DataType:
        """The type in DuckDB."""
        return _built(_DUCKDB.get(self.root, str(self))).copy()

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
    """The kind of a column of a table."""
    if isinstance(type_, RowType):
        # Spark fills a text up to the length of a CHAR column, and not of a CHAR within a struct
        parts = {f.name.lower(): replace(kind_of(f.type), width=0) for f in type_.fields}
        return Kind("OTHER", parts=parts)
    if not isinstance(type_, AtomicType):
        return OTHER
    if type_.root == "CHAR":
        return Kind("STRING", width=type_.length or 1)
    if type_.root == "DECIMAL":
        return Kind("DECIMAL", type_.precision or 0, type_.scale or 0)
    if type_.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and (type_.precision or 0) > _MICROS:
        return OTHER
    if type_.root in ("BINARY", "VARBINARY"):
        return Kind("BINARY")
    root = _ROOTS.get(type_.root, type_.root)
    return Kind(root) if root in (*_PLAIN, *_ROOTS.values()) else OTHER


def decimal(digits: int, scale: int) -> Kind:
    """A DECIMAL of this size in Spark. Raises NeedsSpark if Spark would take digits behind the point away."""
    if digits > _MOST_DIGITS:
        if scale > _KEPT_SCALE:
            raise NeedsSpark("a decimal of more than 38 digits")
        digits = _MOST_DIGITS
    return Kind("DECIMAL", digits, scale)


def wider(one: Kind, other: Kind) -> Kind:
    """The DECIMAL that two are compared as."""
    one, other = one.decimal, other.decimal
    scale = max(one.scale, other.scale)
    digits = max(one.digits - one.scale, other.digits - other.scale) + scale
    more = max(0, digits - _MOST_DIGITS)  # digits behind the point give way to those before it
    return Kind("DECIMAL", digits - more, max(0, scale - more))


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
    scale = max(one.scale, other.scale)
    return decimal(max(one.digits - one.scale, other.digits - other.scale) + scale + 1, scale)


def quotient_kind(one: Kind, other: Kind) -> Kind:
    """Spark's type of a quotient of two DECIMALs."""
    scale = max(_KEPT_SCALE, one.scale + other.digits + 1)
    whole = one.digits - one.scale + other.scale
    if whole + scale <= _MOST_DIGITS:
        return Kind("DECIMAL", whole + scale, scale)
    return Kind("DECIMAL", _MOST_DIGITS, max(_MOST_DIGITS - whole, min(scale, _KEPT_SCALE)))


def arrow_type(kind: Kind) -> pa.DataType | None:
    """The Arrow type of a value; None for one that is only passed on."""
    return pa.decimal128(kind.digits, kind.scale) if kind.root == "DECIMAL" else _ARROW.get(kind.root)


def sqlglot_type(kind: Kind) -> exp.DataType:
    """The type for the resolution of names; UNKNOWN for one that is only passed on."""
    names = {"STRING": "VARCHAR", "TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP", "BINARY": "BLOB"}
    name = names.get(kind.root, str(kind))
    return _built("UNKNOWN" if kind in (OTHER, NULL, ANY) else name).copy()
