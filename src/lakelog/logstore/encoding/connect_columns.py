"""Columns of JSON and Avro values as Kafka Connect's and Debezium's serializers write them, in the table's types.

The connector's schema gives each field a ``Meaning``: the days of ``io.debezium.time.Date``, the microseconds of
``MicroTimestamp``, the unscaled bytes of a decimal. JSON values without a schema are text in ISO form, numbers, or what
``Encodings`` says. All conversions work on whole columns. A value that would lose digits is an error.

Source: Debezium's documentation of its PostgreSQL and MySQL connectors; Kafka's ``JsonConverter``; Confluent's
``AvroData``, whose properties ``connect.name`` and ``connect.parameters`` are Connect's; Avro's logical types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PolarsError

from lakelog.errors import Corrupt
from lakelog.fileformat.messages.schemas import not_null
from lakelog.logstore.encoding.json_rows import (
    Digits,
    dates,
    decoded_base64,
    exact_text,
    read_type,
    restored,
    times,
    variants,
)
from lakelog.paimon.types.exact_casts import exact_cast, wide_type
from lakelog.paimon.types.text_decimals import decimals_from_text
from lakelog.paimon.types.variant import is_variant

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's text for an unchanged large value that PostgreSQL did not send (TOAST)."""
_UNITS: Final = {
    "io.debezium.time.Date": "D",
    "org.apache.kafka.connect.data.Date": "D",
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
"""Semantic type → the unit of its numbers since 1970, or since midnight."""
_LOGICAL_UNITS: Final = {
    "date": "D",
    "time-millis": "ms",
    "time-micros": "us",
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
}
"""Avro's logical type → the same."""
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_MOST_DIGITS: Final = 38
NATIVE_JSON: Final = "json"
"""The name of a meaning: values of a JSON column of the source are JSON themselves, and not text."""
LATIN_1: Final = "latin-1"
"""The same: bytes are text with a character for each, of ISO 8859-1."""
_VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_READ: Final = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), pa.int64()),
    **dict.fromkeys(("float", "double", "float32", "float64"), pa.float64()),
    **dict.fromkeys(("string", "bytes"), pa.string()),
    "boolean": pa.bool_(),
}
"""Connect's type → the type in which pyarrow reads the JSON values."""
_WRONG = (pa.ArrowException, PolarsError, ValueError, TypeError, AttributeError, LookupError, OverflowError)


@dataclass(frozen=True)
class Meaning:
    """The type of a field's values: Connect's ``type``, the name of the semantic type, ``unit`` of numbers in time.

    ``scale`` is that of a decimal in bytes (None: text or a number). ``parts`` are the fields of a struct, ``items``
    the elements of an array, or the values of an Avro map.
    """

    type: str = ""
    name: str = ""
    unit: str = ""
    scale: int | None = None
    items: Meaning | None = None
    parts: Mapping[str, Meaning] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Any) -> Meaning:
        """The meaning of a field of a connector's schema."""
        name = schema.get("name") or ""
        return cls(
            schema.get("type") or "",
            name,
            _UNITS.get(name, ""),
            int(schema["parameters"]["scale"]) if name == _DECIMAL else None,
            cls.of(schema["items"]) if isinstance(schema.get("items"), dict) else None,
            {part["field"]: cls.of(part) for part in schema.get("fields") or ()},
        )

    @classmethod
    def of_avro(cls, schema: Any) -> Meaning:
        """The meaning of a field of a resolved Avro schema (``fileformat/messages/schemas``)."""
        kind = not_null(schema)
        if kind is None:
            return cls("union")
        name, logical = kind.get("connect.name") or kind.get("name") or "", kind.get("logicalType") or ""
        scale = kind.get("scale", 0) if logical == "decimal" else None
        if name == _DECIMAL:
            scale = (kind.get("connect.parameters") or {}).get("scale", scale)
        items = kind.get("items") or kind.get("values")
        return cls(
            kind["type"],
            name or logical,
            _UNITS.get(name) or _LOGICAL_UNITS.get(logical, ""),
            None if scale is None else int(scale),
            None if items is None else cls.of_avro(items),
            {part["name"]: cls.of_avro(part["type"]) for part in kind.get("fields") or ()},
        )


@dataclass(frozen=True)
class Encodings:
    """The encoding of values without a schema, as the connector's configuration names it; "" if unknown."""

    decimals: str = ""
    times: str = ""

    def meaning(self, kind: pa.DataType) -> Meaning:
        """The meaning of the values of a column of this type."""
        if pa.types.is_decimal(kind) and self.decimals == "precise":
            return Meaning("bytes", _DECIMAL, scale=kind.scale)
        if pa.types.is_date(kind):
            return Meaning("int32", unit="D")
        if pa.types.is_timestamp(kind) and kind.tz is None and self.times:
            return Meaning("int64", unit="ms" if self.times == "connect" or kind.unit == "s" else kind.unit)
        if pa.types.is_time(kind) and self.times in ("connect", "adaptive_time_microseconds"):
            return Meaning("int64", unit="ms" if self.times == "connect" else "us")
        return Meaning()


def json_type(kind: pa.DataType, meaning: Meaning) -> pa.DataType | None:
    """The type in which pyarrow reads the JSON values of a column; None if it cannot."""
    if meaning.type in _READ:
        return _READ[meaning.type]
    if meaning.type == "array" and meaning.items is not None:
        inner = json_type(kind.value_type, meaning.items) if pa.types.is_list(kind) else None
        return None if inner is None else pa.list_(inner)
    if meaning.name == _VARIABLE_DECIMAL:
        return pa.struct([("scale", pa.int64()), ("value", pa.string())])
    return None if meaning.type else read_type(kind)


def converted(column: pa.Array, kind: pa.DataType, meaning: Meaning, name: str) -> pa.Array:
    """A column read from JSON or Avro, in the type of the table. Raises Corrupt with the name of the field."""
    try:
        return _converted(column, kind, meaning)
    except Corrupt as why:
        raise Corrupt(f"field '{name}': {why}") from None
    except _WRONG as why:
        what = meaning.name or meaning.type or str(column.type)
        raise Corrupt(f"field '{name}' ({what}) does not fit its column, which is {kind}: {why}") from why


def from_objects(values: list[Any], kind: pa.DataType, meaning: Meaning, name: str) -> pa.Array:
    """A column of parsed JSON values of any mix of types, as ``converted``."""
    positions: dict[type, list[int]] = {}
    for position, value in enumerate(values):
        if value is not None:
            positions.setdefault(type(value), []).append(position)
    parts: list[pa.Array] = []
    order = np.full(len(values), -1, np.int64)
    for sort, chosen in positions.items():
        order[chosen] = np.arange(len(chosen)) + sum(len(part) for part in parts)
        parts.append(_of_one_sort([values[position] for position in chosen], sort, kind, meaning, name))
    if not parts:
        return pa.nulls(len(values), kind)
    return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0))


def _of_one_sort(values: list[Any], sort: type, kind: pa.DataType, meaning: Meaning, name: str) -> pa.Array:
    if sort is list and meaning.items is not None and pa.types.is_list(kind):
        items = from_objects([v for value in values for v in value], kind.value_type, meaning.items, name)
        ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), items).cast(kind)
    if sort is dict and meaning.name == _VARIABLE_DECIMAL:
        return converted(pa.array(values, json_type(kind, meaning)), kind, meaning, name)
    try:
        if meaning.name == NATIVE_JSON and sort is not str and (is_variant(kind) or sort in (list, dict)):
            return converted(pa.array([exact_text(value).decode() for value in values]), kind, Meaning(), name)
        if sort in (list, dict):
            return pa.array([restored(value, kind) for value in values], kind)
        if sort is int and pa.types.is_decimal(kind):  # of any size
            return pa.array(values, kind)
        has_digits = sort is Digits and (pa.types.is_decimal(kind) or pa.types.is_string(kind))
        column = pa.array(map(repr, values)) if has_digits else pa.array(values)
    except _WRONG as why:
        raise Corrupt(f"field '{name}' does not fit its column, which is {kind}: {why}") from why
    # text where a number was announced, as from decimal.format=numeric, is a value in its usual form
    return converted(column, kind, meaning if sort is not Digits else Meaning(), name)


def _converted(column: pa.Array, kind: pa.DataType, meaning: Meaning) -> pa.Array:
    if meaning.name == _VARIABLE_DECIMAL:
        return _variable_decimals(column, kind)
    if pa.types.is_integer(column.type):
        return _of_numbers(column, kind, meaning)
    if pa.types.is_string(column.type):
        return _of_texts(column, kind, meaning)
    if pa.types.is_binary(column.type):
        return _of_bytes(column, kind, meaning)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pa.types.is_struct(column.type) and pa.types.is_struct(kind) and meaning.parts:
        return _of_structs(column, kind, meaning)
    if pa.types.is_map(kind) and _has_pairs(column.type) and meaning.items is not None:
        return _of_pairs(column, kind, meaning.items)
    if pa.types.is_list(column.type) and pa.types.is_list(kind) and meaning.items is not None:
        items = _converted(column.values, kind.value_type, meaning.items)
        return pa.ListArray.from_arrays(column.offsets, items, mask=_nulls(column)).cast(kind)
    if pa.types.is_nested(column.type) and column.type not in (kind, wide_type(kind)):
        return pa.array([restored(value, kind) for value in column.to_pylist()], kind)
    return exact_cast(column, kind)


def _nulls(column: pa.Array) -> pa.BooleanArray | None:
    return column.is_null() if column.null_count else None


def _of_structs(column: pa.StructArray, kind: pa.StructType, meaning: Meaning) -> pa.Array:
    """A struct from the parts of the same names; a part that is missing is NULL."""
    parts, children = [], column.flatten()
    for field_ in kind:
        at = column.type.get_field_index(field_.name)
        part = pa.nulls(len(column)) if at < 0 else children[at]
        parts.append(_converted(part, field_.type, meaning.parts.get(field_.name, Meaning())))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_nulls(column))


def _has_pairs(kind: pa.DataType) -> bool:
    """Whether a type is that of a map, or what Connect's Avro has for one whose keys are not text: a list of pairs."""
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return bool(pa.types.is_map(kind))
    return all(kind.value_type.get_field_index(name) >= 0 for name in ("key", "value"))


def _of_pairs(column: pa.Array, kind: pa.MapType, meaning: Meaning) -> pa.Array:
    if pa.types.is_map(column.type):
        keys, values, of_keys, of_values = column.keys, column.items, Meaning(), meaning
    else:
        children, of = column.values.flatten(), column.values.type
        keys, values = (children[of.get_field_index(name)] for name in ("key", "value"))
        of_keys, of_values = (meaning.parts.get(name, Meaning()) for name in ("key", "value"))
    keys, values = _converted(keys, kind.key_type, of_keys), _converted(values, kind.item_type, of_values)
    return pa.MapArray.from_arrays(column.offsets, keys, values, mask=_nulls(column)).cast(kind)


def _of_numbers(column: pa.Array, kind: pa.DataType, meaning: Meaning) -> pa.Array:
    if pa.types.is_date(kind) and meaning.unit in ("", "D"):
        return pc.cast(pc.cast(column, pa.int32()), kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        if meaning.unit in ("", "D"):
            raise Corrupt(
                f"it has numbers, and nothing says in what unit, for a column of type {kind}: give the column the type "
                "BIGINT. A connector of Debezium may also send its schemas (value.converter.schemas.enable=true), or "
                "the table have 'debezium.time.precision.mode'"
            )
        if pa.types.is_time(kind):
            small = pc.cast(column, pa.int32()) if meaning.unit == "ms" else column
            read = pa.time32("ms") if meaning.unit == "ms" else pa.time64(meaning.unit)
            return pc.cast(pc.cast(small, read), kind)
        moments = pc.cast(column, pa.timestamp(meaning.unit))
        return pc.cast(moments, kind)
    if pa.types.is_decimal(kind):
        return decimals_from_text(pc.cast(column, pa.string()), kind)
    return pc.cast(column, kind)


def _check_received(column: pa.Array) -> None:
    """Raises Corrupt for a column, of text or bytes, with Debezium's marker in place of a value."""
    if pc.any(pc.equal(column, pa.scalar(UNAVAILABLE.encode()).cast(column.type))).as_py():
        raise Corrupt(
            "Debezium did not receive its value, because a large value of PostgreSQL did not change: run ALTER TABLE … "
            "REPLICA IDENTITY FULL at the source, or use Debezium's ReselectColumnsPostProcessor"
        )


def _of_bytes(column: pa.Array, kind: pa.DataType, meaning: Meaning) -> pa.Array:
    if meaning.scale is not None:
        return pc.cast(_unscaled(column, meaning.scale), kind)
    _check_received(column)
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)):
        raise Corrupt(f"it has bytes, and nothing says what they are in a column of type {kind}")
    return pc.cast(column, kind)


def _of_texts(column: pa.Array, kind: pa.DataType, meaning: Meaning) -> pa.Array:
    _check_received(column)
    if meaning.scale is not None:
        return pc.cast(_decimals(column, meaning.scale), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        data = _latin_1(column) if meaning.name == LATIN_1 else decoded_base64(column).cast(pa.binary())
        return _of_bytes(data, kind, Meaning())
    if pa.types.is_string(kind):
        return column
    if is_variant(kind):
        return variants(column)
    if pa.types.is_decimal(kind):
        return _numbers_as_text(column, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _zoned(column, kind)
    if not (pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind)):
        return exact_cast(column, kind)
    texts = pc.replace_substring_regex(column, "Z$", "")
    if pa.types.is_date(kind):
        return dates(texts, kind)
    return times(texts, kind) if pa.types.is_time(kind) else _moments(texts, kind)


def _latin_1(texts: pa.Array) -> pa.BinaryArray:
    return pa.array([None if text is None else text.encode("latin-1") for text in texts.to_pylist()], pa.binary())


def _numbers_as_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return decimals_from_text(column, kind)
    except pa.ArrowInvalid as why:
        raise Corrupt(
            f"{why}. If the connector sends decimals as bytes (decimal.handling.mode=precise), let it send its "
            "schemas, or set 'debezium.decimal.handling.mode' = 'precise' of the table"
        ) from None


def _zoned(column: pa.Array, kind: pa.DataType) -> pa.Array:
    has_zone = pc.match_substring_regex(column, r"(Z|[+-]\d\d:?\d\d)$")
    return _moments(pc.if_else(has_zone, column, pc.binary_join_element_wise(column, "Z", "")), kind)


def _moments(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps from ISO text of any number of digits; Arrow parses years of four digits only."""
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        try:
            exact = pc.cast(texts, pa.timestamp("ns", kind.tz))
        except pa.ArrowInvalid:
            return pa.array([restored(text, kind) for text in texts.to_pylist()], kind)
        return pc.cast(exact, kind)


def _variable_decimals(column: pa.Array, kind: pa.DataType) -> pa.Array:
    scales, values = (pc.struct_field(column, name) for name in ("scale", "value"))  # NULL where the struct is
    out = pa.nulls(len(column), kind)
    for scale in pc.unique(scales.drop_null()).to_pylist():
        here = pc.fill_null(pc.equal(scales, scale), False)
        chosen = values.filter(here)
        read = _decimals if pa.types.is_string(chosen.type) else _unscaled
        out = pc.replace_with_mask(out, here, pc.cast(read(chosen, scale), kind))
    return out


def _decimals(texts: pa.Array, scale: int) -> pa.Array:
    """Decimals from base64 of their unscaled value, big-endian two's complement; or from a number in text."""
    if abs(scale) > _MOST_DIGITS:
        raise Corrupt(f"it has a decimal of scale {scale}, and a decimal has at most {_MOST_DIGITS} digits")
    is_number = pc.fill_null(pc.match_substring(texts, "."), False)
    if pc.any(is_number).as_py():
        own = decimals_from_text(texts.filter(is_number), pa.decimal128(_MOST_DIGITS, max(0, scale)))
        encoded = _decimals(pc.if_else(is_number, pa.scalar(None, pa.string()), texts), scale)
        return pc.replace_with_mask(encoded, is_number, own)
    return _unscaled(decoded_base64(texts), scale)


def _unscaled(data: pa.Array, scale: int) -> pa.Array:
    """Decimals from their unscaled values, big-endian two's complement."""
    if abs(scale) > _MOST_DIGITS:
        raise Corrupt(f"it has a decimal of scale {scale}, and a decimal has at most {_MOST_DIGITS} digits")
    lengths = pc.fill_null(pc.binary_length(data), 0).to_numpy()
    if len(lengths) and lengths.max() > 16:
        raise Corrupt("it has a decimal of more than 38 digits: read the column as text (decimal.handling.mode=string)")
    whole = np.zeros((len(data), 16), np.uint8)
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        digits = np.frombuffer(b"".join(data.take(pa.array(rows)).to_pylist()), np.uint8).reshape(-1, length)
        whole[rows] = np.where(digits[:, :1] >= 128, 255, 0)
        whole[rows, :length] = digits[:, ::-1]
    numbers = pa.Array.from_buffers(pa.decimal128(38, scale), len(data), [None, pa.py_buffer(whole.tobytes())])
    numbers.validate(full=True)  # 16 bytes may have 39 digits
    return pc.if_else(pc.is_valid(data), numbers, pa.scalar(None, numbers.type))


__all__ = ["LATIN_1", "NATIVE_JSON", "UNAVAILABLE", "Encodings", "Meaning", "converted", "from_objects", "json_type"]
