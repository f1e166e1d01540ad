"""Rows in the form of the golden files: JSON that is the same whoever has read the row."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa


def canonical(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, sort_keys=True)


def printed_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, each value as the golden files hold it."""
    columns = [[printed(value) for value in values(column)] for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Python values; nanoseconds, which Python's datetime lacks, as (datetime64, has a zone)."""
    if pa.types.is_timestamp(column.type):
        zone = column.type.tz is not None
        whole = column.cast(pa.int64()).to_pylist()
        return [None if v is None else (np.datetime64(v, column.type.unit), zone) for v in whole]
    if pa.types.is_map(column.type):
        parts = [(values(v.values.field(0)), values(v.values.field(1))) if v.is_valid else None for v in column]
        return [None if p is None else {"pairs": [list(pair) for pair in zip(*p, strict=True)]} for p in parts]
    if pa.types.is_list(column.type):
        return [values(v.values) if v.is_valid else None for v in column]
    if pa.types.is_struct(column.type):
        named = {field.name: values(part) for field, part in zip(column.type, column.flatten(), strict=True)}
        return [{n: part[at] for n, part in named.items()} if v.is_valid else None for at, v in enumerate(column)]
    if pa.types.is_float32(column.type):
        return [None if v is None else float(str(np.float32(v))) for v in column.to_pylist()]
    return list(column.to_pylist())


def printed(value: Any) -> Any:
    """As the expected rows hold it."""
    if isinstance(value, tuple):
        return printed_stamp(*value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.time):
        return value.isoformat("milliseconds" if value.microsecond else "seconds" if value.second else "minutes")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dict) and set(value) == {"pairs"}:
        return sorted(([printed(part) for part in pair] for pair in value["pairs"]), key=repr)
    if isinstance(value, dict):
        return {k: printed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [printed(v) for v in value]
    return value


def printed_stamp(value: np.datetime64, zone: bool) -> str:
    """ISO text as Java prints it: no seconds that are zero, and as few groups of three digits as needed."""
    text, _, fraction = str(value).partition(".")
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    text = text if fraction else text.removesuffix(":00")
    return text + (f".{fraction}" if fraction else "") + ("Z" if zone else "")
