"""The columns of several files as one: names by case, and structs that gained fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from lakelog.errors import InvalidSchema
from lakelog.paimon.types.arrow import fresh_offsets, map_array


def common_schema(schemas: Iterable[tuple[str, pa.Schema]]) -> pa.Schema:
    """The columns of all files, each in the spelling of its first one.

    ``schemas`` are pairs of a file's name and its columns. A struct has the fields of all files. Raises InvalidSchema
    for a file with two columns of one name, and for a column with different types.
    """
    fields: dict[str, pa.Field] = {}
    for file, schema in schemas:
        check_names(schema.names, f"file '{file}'")
        for field in schema:
            known = fields.get(field.name.lower(), field)
            fields[field.name.lower()] = _common_field(known, field, f"column '{field.name}' of file '{file}'")
    return pa.schema(list(fields.values()))


def check_names(names: Sequence[str], where: str) -> None:
    """Raises InvalidSchema if two names differ by case only: SQL could name neither."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise InvalidSchema(
                f"{where} has the columns '{other}' and '{name}', which are one in SQL: rename one of them"
            )


def aligned(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of one file with the columns of ``common_schema``; those that the file lacks are NULL."""
    positions = {name.lower(): at for at, name in enumerate(rows.schema.names)}
    columns = [
        _aligned(rows.column(positions[field.name.lower()]), field.type)
        if field.name.lower() in positions
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _common_field(one: pa.Field, other: pa.Field, where: str) -> pa.Field:
    kind = _common_type(one.type, other.type, where)
    return one.with_type(kind).with_nullable(one.nullable or other.nullable)


def _common_type(one: pa.DataType, other: pa.DataType, where: str) -> pa.DataType:
    if pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        check_names([field.name for field in other], where)
        theirs = {field.name.lower(): field for field in other}
        ours = {field.name.lower() for field in one}
        kept = [
            _common_field(f, theirs[f.name.lower()], f"{where}.{f.name}")
            if f.name.lower() in theirs
            else f.with_nullable(True)
            for f in one
        ]
        return pa.struct([*kept, *(f.with_nullable(True) for f in other if f.name.lower() not in ours)])
    if _is_list(one) and _is_list(other):
        kind: Any = pa.large_list if pa.types.is_large_list(one) else pa.list_
        return kind(_common_field(one.value_field, other.value_field, f"{where}.element"))
    if pa.types.is_map(one) and pa.types.is_map(other):
        key = _common_type(one.key_type, other.key_type, f"{where}.key")
        return pa.map_(key, _common_field(one.item_field, other.item_field, f"{where}.value"))
    if one == other:
        return one
    raise InvalidSchema(f"{where} is {other}, and {one} in other files: the files do not have the same columns")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _aligned(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(column.type):
        parts = {column.type.field(at).name.lower(): part for at, part in enumerate(column.flatten())}
        values = [
            _aligned(parts[f.name.lower()], f.type) if f.name.lower() in parts else pa.nulls(len(column), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(values, fields=list(kind), mask=mask)
    if pa.types.is_list(column.type) and pa.types.is_list(kind):
        offsets, start, stop = fresh_offsets(column)
        items = _aligned(column.values.slice(start, stop - start), kind.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)
    if pa.types.is_map(column.type):
        offsets, start, stop = fresh_offsets(column)
        keys = _aligned(column.keys.slice(start, stop - start), kind.key_type)
        items = _aligned(column.items.slice(start, stop - start), kind.item_type)
        return map_array(offsets, keys, items, kind, mask)
    return column.cast(kind)
