"""Column types of the format as Arrow types, and back; columns of other programs without their encodings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.types.types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from lakelog.paimon.types.variant import VARIANT, is_variant

FIELD_ID: Final = b"PARQUET:field_id"
"""Key of Arrow field metadata that the Parquet writer turns into a field id."""

_NESTED_BASE: Final = 536870911
_NESTED_STEP: Final = 1024

_PLAIN: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a column type; nullability inside nested types is kept.

    TIMESTAMP(p) has the unit that holds p digits (ms, us, ns); TIMESTAMP_LTZ the same with zone UTC. Raises
    UnsupportedFeature for BLOB and VECTOR.
    """
    return _arrow_type(kind, None, 0)


def arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of columns: names, types, nullability."""
    return pa.schema([pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in fields])


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """Like ``arrow_schema``, with the field ids that data files carry (format sheet 6.2), nested ones too."""
    return pa.schema([_numbered(f) for f in fields])


def fields_from_arrow(schema: pa.Schema) -> list[tuple[str, DataType, str | None]]:
    """(name, type, comment) of Arrow columns, as ``new_schema`` takes them.

    Raises UnsupportedFeature for a type that the format does not have (unsigned 64-bit numbers, durations, unions …).
    """
    out = []
    for field in schema:
        comment = (field.metadata or {}).get(b"comment")
        out.append((field.name, type_from_arrow(field.type, field.nullable), comment.decode() if comment else None))
    return out


def type_from_arrow(kind: pa.DataType, nullable: bool = True) -> DataType:
    """The narrowest column type that holds every value of an Arrow type; ids inside rows are -1, not yet given."""
    kind = plain_type(kind)
    for check, root in _ROOTS:
        if check(kind):
            return AtomicType(root, nullable)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return STRING.with_nullable(nullable)
    if pa.types.is_fixed_size_binary(kind):
        return AtomicType("BINARY", nullable, length=kind.byte_width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return BYTES.with_nullable(nullable)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return AtomicType("DECIMAL", nullable, precision=kind.precision, scale=kind.scale)
    if pa.types.is_timestamp(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return AtomicType("TIMESTAMP_LTZ" if kind.tz else "TIMESTAMP", nullable, precision=digits)
    if pa.types.is_time32(kind):
        return AtomicType("TIME", nullable, precision=0 if kind.unit == "s" else 3)
    if pa.types.is_map(kind):
        value = type_from_arrow(kind.item_type, kind.item_field.nullable)
        return MapType(type_from_arrow(kind.key_type, False), value, nullable)
    if pa.types.is_list(kind):
        return ArrayType(type_from_arrow(kind.value_type, kind.value_field.nullable), nullable)
    if is_variant(kind):
        return AtomicType("VARIANT", nullable)
    if pa.types.is_struct(kind):
        parts = [kind.field(i) for i in range(kind.num_fields)]
        return RowType(tuple(DataField(-1, p.name, type_from_arrow(p.type, p.nullable)) for p in parts), nullable)
    raise UnsupportedFeature(f"a column of Arrow type {kind} cannot be stored: cast it to another type first")


_ROOTS: Final[Sequence[tuple[Callable[[pa.DataType], bool], str]]] = (
    (pa.types.is_boolean, "BOOLEAN"), (pa.types.is_int8, "TINYINT"), (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_uint8, "SMALLINT"), (pa.types.is_int32, "INT"), (pa.types.is_uint16, "INT"),
    (pa.types.is_int64, "BIGINT"), (pa.types.is_uint32, "BIGINT"), (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"), (pa.types.is_date32, "DATE"),
)  # fmt: skip


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without encodings of values: dictionaries, runs, views and extensions; all lists are plain ones."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(part) for part in kind])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def plain_column(column: pa.Array) -> pa.Array:
    """The same values in the plain type. Few kernels of Arrow take the encodings that polars and others export."""
    kind = column.type
    plain = plain_type(kind)
    if kind == plain:
        return column
    if isinstance(kind, pa.BaseExtensionType):
        return plain_column(column.storage)
    if pa.types.is_dictionary(kind):
        return plain_column(column.dictionary).take(column.indices)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(len(column)) + column.offset
        return plain_column(column.values).take(np.searchsorted(column.run_ends.to_numpy(), rows, side="right"))
    if pa.types.is_map(kind):
        offsets, start, stop = fresh_offsets(column)
        keys = plain_column(column.keys.slice(start, stop - start))
        return map_array(offsets, keys, plain_column(column.items.slice(start, stop - start)), plain, _mask(column))
    if is_list(kind):
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        return pa.ListArray.from_arrays(offsets, plain_column(column.flatten()), type=plain, mask=_mask(column))
    if pa.types.is_struct(kind):
        parts = [plain_column(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(plain), mask=_mask(column))
    return column.cast(plain)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with its columns in plain types."""
    columns = [plain_column(column) for column in batch.columns]
    fields = [field.with_type(column.type) for field, column in zip(batch.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def is_list(kind: pa.DataType) -> bool:
    """True for every type of lists."""
    return any(check(kind) for check in _LISTS)


def fresh_offsets(column: pa.ListArray | pa.MapArray) -> tuple[pa.Array, int, int]:
    """Offsets of a list or map from 0, and the range of its values that they speak of."""
    numbers = column.offsets.to_numpy()
    start, stop = int(numbers[0]), int(numbers[-1])
    return pa.array((numbers - start).astype(np.int32)), start, stop


def map_array(offsets: pa.Array, keys: pa.Array, items: pa.Array, kind: pa.MapType, mask: pa.Array | None) -> pa.Array:
    """A map column from its parts; ``mask`` is true where a row is NULL."""
    pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    lists = pa.ListArray.from_arrays(offsets, pairs, mask=mask)
    return pa.Array.from_buffers(kind, len(lists), lists.buffers()[:2], lists.null_count, 0, [pairs])


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


_LISTS: Final[Sequence[Callable[[pa.DataType], bool]]] = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def _numbered(field: DataField) -> pa.Field:
    kind = _arrow_type(field.type, field.id, 0)
    return _with_id(pa.field(field.name, kind, field.type.nullable), field.id)


def _with_id(field: pa.Field, number: int | None) -> pa.Field:
    return field if number is None else field.with_metadata({FIELD_ID: str(number)})


def _arrow_type(kind: DataType, number: int | None, depth: int) -> pa.DataType:
    """``number`` is the id of the column (None: no ids wanted), ``depth`` how many lists and maps are around."""
    if isinstance(kind, AtomicType):
        return _atomic(kind) if number is None or kind.root != "VARIANT" else _NUMBERED_VARIANT
    inner = depth + 1
    high = None if number is None else _NESTED_BASE + _NESTED_STEP * number + inner
    low = None if number is None else _NESTED_BASE - _NESTED_STEP * number - inner
    if isinstance(kind, ArrayType):
        element = pa.field("element", _arrow_type(kind.element, number, inner), kind.element.nullable)
        return pa.list_(_with_id(element, high))
    if isinstance(kind, MapType | MultisetType):
        key, value = (kind.key, kind.value) if isinstance(kind, MapType) else (kind.element, AtomicType("INT", False))
        return pa.map_(
            _with_id(pa.field("key", _arrow_type(key, number, inner), False), low),
            _with_id(pa.field("value", _arrow_type(value, number, inner), value.nullable), high),
        )
    if isinstance(kind, RowType):
        parts = [_numbered(f) if number is not None else arrow_schema([f]).field(0) for f in kind.fields]
        return pa.struct(parts)
    word = "VECTOR" if isinstance(kind, VectorType) else kind.to_json()
    raise UnsupportedFeature(f"columns of type {word} cannot be read or written: leave them out")


def _atomic(kind: AtomicType) -> pa.DataType:
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    if kind.root == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.timestamp(time_unit(kind), tz="UTC" if kind.root == "TIMESTAMP_LTZ" else None)
    if kind.root == "VARIANT":
        return VARIANT
    raise UnsupportedFeature(f"columns of type {kind.root} cannot be read or written: leave them out")


_NUMBERED_VARIANT: Final = pa.struct(
    [part.with_metadata({**(part.metadata or {}), FIELD_ID: str(at)}) for at, part in enumerate(VARIANT)]
)
"""VARIANT in a file: its parts have the same ids in every column, as Apache Paimon writes them."""


def time_unit(kind: AtomicType) -> str:
    """``ms``, ``us`` or ``ns``: the unit that holds the digits of a timestamp type."""
    digits = kind.precision or 0
    return "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
