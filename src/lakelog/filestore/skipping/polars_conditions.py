"""The part of a polars expression that can skip files: comparisons of columns with values, joined by AND and OR.

What is not understood is left out: the caller applies the expression itself to the rows that remain.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import orjson
import polars as pl
import pyarrow as pa

from lakelog.filestore.skipping.arrow_conditions import fits_exactly
from lakelog.filestore.skipping.predicate import And, Compare, In, IsNull, Or, Predicate

_OPERATORS: Final = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS: Final = ("Int", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_MICROSECONDS: Final = {"Milliseconds": 1000, "Microseconds": 1}
_DAY_0: Final = date(1970, 1, 1)


def skipping_part_of_polars(expression: pl.Expr, schema: pa.Schema) -> Predicate | None:
    """A condition that is true for all rows for which an expression is, None if nothing of it is understood."""
    with warnings.catch_warnings():  # the format of this text may change: then nothing is understood
        warnings.simplefilter("ignore")
        try:
            return _predicate(orjson.loads(expression.meta.serialize(format="json")), schema)
        except (pl.exceptions.PolarsError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            return None


def _predicate(tree: Any, schema: pa.Schema) -> Predicate | None:
    if not isinstance(tree, Mapping):
        return None
    if "Function" in tree:
        return _function(tree["Function"]["function"], tree["Function"]["input"], schema)
    if "BinaryExpr" not in tree:
        return None
    node = tree["BinaryExpr"]
    if node["op"] in ("And", "LogicalAnd"):
        parts = [part for side in ("left", "right") if (part := _predicate(node[side], schema)) is not None]
        return And(*parts) if len(parts) > 1 else parts[0] if parts else None
    if node["op"] in ("Or", "LogicalOr"):
        either = [_predicate(node[side], schema) for side in ("left", "right")]
        return None if None in either else Or(*either)  # type: ignore[arg-type]
    op = _OPERATORS.get(node["op"])
    if op is None:
        return None
    if "Column" in node["left"]:
        return _compared(node["left"]["Column"], op, node["right"], schema)
    if "Column" in node["right"]:
        return _compared(node["right"]["Column"], _MIRRORED[op], node["left"], schema)
    return None


def _function(function: Any, inputs: Sequence[Any], schema: pa.Schema) -> Predicate | None:
    kind, name = function["Boolean"], inputs[0]["Column"]
    if kind in ("IsNull", "IsNotNull"):
        return IsNull(name, kind == "IsNull")
    if "IsIn" in kind and not kind["IsIn"]["nulls_equal"]:
        listed = pa.ipc.open_stream(bytes(inputs[1]["Literal"]["Scalar"]["List"])).read_all().column(0).to_pylist()
        simple = all(fits_exactly(value, schema.field(name).type) for value in listed)
        return In(name, tuple(listed)) if listed and simple else None
    if "IsBetween" in kind:
        closed = kind["IsBetween"]["closed"]
        low = _compared(name, ">=" if closed in ("Both", "Left") else ">", inputs[1], schema)
        high = _compared(name, "<=" if closed in ("Both", "Right") else "<", inputs[2], schema)
        return low if high is None else high if low is None else And(low, high)
    return None


def _compared(name: str, op: str, tree: Any, schema: pa.Schema) -> Predicate | None:
    value = _value(tree["Literal"]) if "Literal" in tree else None
    is_float = isinstance(value, float)
    if not fits_exactly(value, schema.field(name).type) or (is_float and op not in ("<", "<=", "=")):
        # for polars, NaN is the largest number
        return None
    return Compare(name, op, value)


def _value(literal: Mapping[str, Any]) -> Any:
    """The value of a literal, None for one of a type that is left out."""
    ((kind, value),) = (literal.get("Dyn") or literal["Scalar"]).items()
    if kind in _INTEGERS:
        return int(value)
    readers: Mapping[str, Callable[[Any], Any]] = {
        "Float": _finite, "Float64": _finite, "String": str, "Str": str, "Date": _date, "Datetime": _time,
    }  # fmt: skip
    return readers[kind](value) if kind in readers else None


def _finite(value: float) -> float | None:
    return value if isinstance(value, float) and value - value == 0 else None


def _date(days: int) -> date:
    return _DAY_0 + timedelta(days=days)


def _time(value: Sequence[Any]) -> datetime | None:
    number, unit, zone = value
    if unit not in _MICROSECONDS:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number * _MICROSECONDS[unit])
    return moment if zone else moment.replace(tzinfo=None)
