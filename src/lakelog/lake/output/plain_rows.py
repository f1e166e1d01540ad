"""Rows of Arrow tables as plain values, for printing and JSON.

Decimals are strings (no digit is lost), times are ISO 8601, instants end in Z, bytes are ``0x…``. A map with text keys
is an object, and any other a list of pairs. A VARIANT is its JSON text. NaN and infinities, which JSON does not have,
are strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.types.variant import is_variant
from lakelog.paimon.types.variant_bytes import to_json

JSON_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
"""orjson options for these values."""


def plain_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as tuples of JSON values, or dates and times."""
    return zip(*(_plain_column(column) for column in table.columns), strict=True)


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Only the label of the zone changes; Python then needs no time zone database.
        column = column.cast(pa.timestamp(kind.unit, tz="UTC"))
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        # Python's datetime has no nanoseconds.
        values: list[Any] = pc.replace_substring(column.cast(pa.string()), " ", "T").to_pylist()
        return values
    values = column.to_pylist()
    change = _plain_value(kind)
    return values if change is None else [None if value is None else change(value) for value in values]


def _plain_value(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that converts a value of this type to a JSON value; None if no conversion is needed."""
    if pa.types.is_floating(kind):
        return lambda value: value if math.isfinite(value) else _not_finite(value)
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda value: "0x" + value.hex()
    if pa.types.is_duration(kind) or pa.types.is_interval(kind):
        return str
    if pa.types.is_map(kind):
        key, item = _plain_or_none(kind.key_type), _plain_or_none(kind.item_type)
        pairs = dict if pa.types.is_string(kind.key_type) else _list_of_lists
        return lambda value: pairs([(key(k), item(v)) for k, v in value])
    if is_variant(kind):
        return lambda value: to_json(value["value"], value["metadata"])
    if pa.types.is_struct(kind):
        fields = {kind.field(at).name: _plain_or_none(kind.field(at).type) for at in range(kind.num_fields)}
        return lambda value: {name: change(value[name]) for name, change in fields.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _plain_or_none(kind.value_type)
        return lambda value: [element(one) for one in value]
    return None


def _plain_or_none(kind: pa.DataType) -> Callable[[Any], Any]:
    change = _plain_value(kind)
    if change is None:
        return lambda value: value
    return lambda value: None if value is None else change(value)


def _list_of_lists(pairs: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [[key, value] for key, value in pairs]


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
