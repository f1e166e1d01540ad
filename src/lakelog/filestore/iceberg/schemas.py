"""Schemas, partition specs and single values of Iceberg, made from those of a table."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.options.iceberg import DISABLED, ICEBERG_STORAGE, ICEBERG_VERSION, VECTORS_VERSION
from lakelog.options.option import Options
from lakelog.options.table import DELETION_VECTORS, FILE_FORMAT, FILE_FORMAT_PER_LEVEL, levels_of
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import FIELD_ID, file_schema
from lakelog.paimon.types.types import AtomicType, DataType, type_keyword
from lakelog.paimon.types.variant import is_variant

FIRST_PARTITION_ID: Final = 1000
_DIGITS_OF_MICROS: Final = 6
"""Timestamps with more digits are INT96 in a Parquet file, which has no type of nanoseconds in Iceberg."""
_PLAIN: Final = {
    "BOOLEAN": "boolean", "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "long",
    "FLOAT": "float", "DOUBLE": "double", "CHAR": "string", "VARCHAR": "string", "BINARY": "binary",
    "VARBINARY": "binary", "DATE": "date",
}  # fmt: skip
_STAMPS: Final = {"TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz"}
_PROMOTIONS: Final = {("int", "long"), ("float", "double")}
_LAYOUTS: Final = {"int": "<i", "date": "<i", "long": "<q", "timestamp": "<q", "timestamptz": "<q"}
_FLOATS: Final = {"float": "<f", "double": "<d"}
_EPOCH_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)
_MICRO: Final = timedelta(microseconds=1)

Json = dict[str, Any]


def iceberg_schema(schema: TableSchema) -> Json:
    """The Iceberg schema of a table's schema, with the field ids of its Parquet files.

    Raises UnsupportedFeature for a column of a type that is not exported.
    """
    fields = []
    for field, column in zip(file_schema(schema.fields), schema.fields, strict=True):
        iceberg_field = _field(field, column.name)
        fields.append({**iceberg_field, "doc": column.description} if column.description else iceberg_field)
    return {"type": "struct", "schema-id": schema.id, "fields": fields}


def atomic_type(kind: DataType) -> str | None:
    """The Iceberg type of a column without parts; None for nested types and types that are not exported."""
    if not isinstance(kind, AtomicType):
        return None
    if kind.root == "DECIMAL":
        return f"decimal({kind.precision}, {kind.scale})"
    if kind.root in _STAMPS:
        return _STAMPS[kind.root] if (kind.precision or 0) <= _DIGITS_OF_MICROS else None
    return _PLAIN.get(kind.root)


def check_exportable(schema: TableSchema) -> None:
    """Checks that Iceberg's readers can read a table with this schema; without Iceberg metadata, all are fine.

    Called for CREATE TABLE and ALTER TABLE. Raises UnsupportedFeature for a column of a type that is not
    exported, InvalidOption for another option that it does not go with.
    """
    options = Options(schema.options)
    if options.need(ICEBERG_STORAGE) == DISABLED:
        return
    version = options.need(ICEBERG_VERSION)
    iceberg_schema(schema)
    for number, key in enumerate(schema.partition_keys):
        avro_type(schema.field(key).type, number)
    formats = {options.need(FILE_FORMAT), *levels_of(FILE_FORMAT_PER_LEVEL, options).values()} - {FILE_FORMAT.default}
    if options.need(DELETION_VECTORS) and version < VECTORS_VERSION:
        raise InvalidOption(
            f"option '{DELETION_VECTORS.key}' = 'true' does not go with Iceberg metadata of version {version}, which "
            f"cannot name deletion vectors. Set '{ICEBERG_VERSION.key}' = '{VECTORS_VERSION}'"
        )
    if formats:
        key = FILE_FORMAT_PER_LEVEL.key if options.need(FILE_FORMAT) == FILE_FORMAT.default else FILE_FORMAT.key
        raise _contradiction(options, f"'{key}' = '{options[key]}': only Parquet files have field ids for its readers")


def _contradiction(options: Options, other: str) -> InvalidOption:
    storage = options.need(ICEBERG_STORAGE)
    return InvalidOption(
        f"option '{ICEBERG_STORAGE.key}' = '{storage}' does not go with {other}. Remove one of the options"
    )


def _field(field: pa.Field, column: str) -> Json:
    return {
        "id": _id(field),
        "name": field.name,
        "required": not field.nullable,
        "type": _type(field.type, column),
    }


def _id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID])


def _type(kind: pa.DataType, column: str) -> str | Json:
    """The type of values as they are in the file; ``column`` is named in errors."""
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return {
            "type": "map",
            "key-id": _id(key),
            "key": _type(key.type, column),
            "value-id": _id(value),
            "value-required": not value.nullable,
            "value": _type(value.type, column),
        }
    if pa.types.is_list(kind):
        element = kind.value_field
        return {
            "type": "list",
            "element-id": _id(element),
            "element-required": not element.nullable,
            "element": _type(element.type, column),
        }
    if pa.types.is_struct(kind) and not is_variant(kind):
        return {"type": "struct", "fields": [_field(kind.field(i), column) for i in range(kind.num_fields)]}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return "timestamptz" if kind.tz else "timestamp"
    for check, name in _ARROW:
        if check(kind):
            return name
    word = "TIMESTAMP(7) to (9)" if pa.types.is_timestamp(kind) else "TIME" if pa.types.is_time(kind) else str(kind)
    word = "VARIANT" if is_variant(kind) else word
    raise UnsupportedFeature(
        f"column '{column}' of type {word} cannot be read through Iceberg metadata: leave out the column, "
        "or set 'metadata.iceberg.storage' = 'disabled'"
    )


_ARROW: Final = (
    (pa.types.is_boolean, "boolean"), (pa.types.is_int8, "int"), (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"), (pa.types.is_int64, "long"), (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"), (pa.types.is_string, "string"), (pa.types.is_binary, "binary"),
    (pa.types.is_date32, "date"),
)  # fmt: skip


def check_readable_as(written: Json, current: Json) -> None:
    """Checks that files of one Iceberg schema can be read with another one; columns are found by id.

    Raises UnsupportedFeature: Iceberg widens INT, FLOAT and DECIMAL, and casts nothing else.
    """
    for name, old, new in _differences(written, current):
        raise UnsupportedFeature(
            f"column '{name}' changed from {old} to {new}, and Iceberg's readers cannot cast the rows of older files: "
            "compact the table fully, so that all files have the new type"
        )


def _differences(old: Any, new: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        if old != new and not _is_promotion(old, new):
            yield name, _word(old), _word(new)
    elif old["type"] == "struct":
        before = {f["id"]: f for f in old["fields"]}
        for field in new["fields"]:
            if field["id"] in before:
                yield from _differences(before[field["id"]]["type"], field["type"], name or field["name"])
    else:
        for part in ("element",) if old["type"] == "list" else ("key", "value"):
            yield from _differences(old[part], new[part], name)


def _word(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def _is_promotion(old: Any, new: Any) -> bool:
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    if old.startswith("decimal(") and new.startswith("decimal("):
        before, after = (tuple(map(int, kind[8:-1].split(","))) for kind in (old, new))
        return before[1] == after[1] and before[0] <= after[0]
    return (old, new) in _PROMOTIONS


def highest_id(kind: Any) -> int:
    """The highest field id inside an Iceberg type or schema."""
    if isinstance(kind, str):
        return 0
    if kind["type"] == "struct":
        return max((max(int(f["id"]), highest_id(f["type"])) for f in kind["fields"]), default=0)
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return max(max(int(kind[f"{part}-id"]), highest_id(kind[part])) for part in parts)


def partition_spec(schema: TableSchema) -> list[Json]:
    """The fields of the only partition spec: each partition column by identity."""
    return [
        {"name": name, "transform": "identity", "source-id": schema.field(name).id, "field-id": FIRST_PARTITION_ID + at}
        for at, name in enumerate(schema.partition_keys)
    ]


def raw_value(value: Any) -> Any:
    """A value as an Avro record of Iceberg has it: days or microseconds since 1970."""
    if isinstance(value, datetime):
        return ((value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value) - _EPOCH) // _MICRO
    return (value - _EPOCH_DAY).days if isinstance(value, date) else value


def value_bytes(kind: DataType, value: Any) -> bytes | None:
    """A bound in Iceberg's single-value form; None for an unknown value, NaN, and types with other orders.

    Absent bounds are always right: a reader then reads the file.
    """
    name = atomic_type(kind)
    if value is None or name is None:
        return None
    raw = raw_value(value)
    try:
        if name in _LAYOUTS:
            return struct.pack(_LAYOUTS[name], raw)
        if name in _FLOATS:
            return None if math.isnan(raw) else struct.pack(_FLOATS[name], raw)
    except (struct.error, OverflowError):
        return None
    if name == "boolean":
        return b"\x01" if raw else b"\x00"
    if name == "string":
        return str(raw).encode("utf-8", "surrogatepass")
    return _decimal_bytes(raw, kind) if isinstance(raw, Decimal) else None


def _decimal_bytes(value: Decimal, kind: DataType) -> bytes | None:
    """The unscaled number in the fewest bytes, the highest first."""
    scale = kind.scale if isinstance(kind, AtomicType) else 0
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -(scale or 0):
        return None
    unscaled: int = int("".join(map(str, digits))) * 10 ** (exponent + (scale or 0)) * (-1 if sign else 1)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def avro_type(kind: DataType, number: int) -> Any:
    """The Avro type of the values of the partition field ``number``. Raises UnsupportedFeature."""
    name = atomic_type(kind)
    if isinstance(kind, AtomicType) and kind.root == "DECIMAL":
        size = next(n for n in range(1, 17) if 2 ** (8 * n - 1) > 10 ** (kind.precision or 0))
        return {
            "type": "fixed",
            "name": f"decimal_{number}",
            "size": size,
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    type_text = _AVRO.get(name or "")
    if type_text is None:
        raise UnsupportedFeature(f"a partition column of type {type_keyword(kind)} cannot be in Iceberg metadata")
    return type_text


_AVRO: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}
