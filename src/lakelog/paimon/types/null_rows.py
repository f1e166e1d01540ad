"""Casts of rows whose nested values are NULL.

Where a row is NULL, Arrow's kernels and other writers leave NULL in its NOT NULL parts, and Arrow's own cast fails.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.types.arrow import fresh_offsets, map_array


def cast_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as ``schema``, as ``Table.cast`` does it. Raises ArrowInvalid and ValueError as that."""
    if not any(_has_needed_part(field.type) for field in schema) or rows.schema.names != schema.names:
        return rows.cast(schema)
    columns = [
        pa.chunked_array([_filled(chunk, field.type) for chunk in column.chunks])
        if _has_needed_part(field.type) and column.num_chunks
        else column
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def cast_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as ``kind``, as ``Array.cast`` does it. Raises ArrowInvalid as that."""
    return _filled(column, kind).cast(kind)


def _has_needed_part(kind: pa.DataType) -> bool:
    """Whether a type is or contains a row with a NOT NULL part."""
    parts = [kind.field(i) for i in range(kind.num_fields)]
    own = pa.types.is_struct(kind) and any(not part.nullable for part in parts)
    return own or any(_has_needed_part(part.type) for part in parts)


def _filled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column with an empty value in each NOT NULL part (of ``kind``) of a row that is NULL."""
    have = column.type
    if not _has_needed_part(kind) or have.id != kind.id:
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        if [part.name for part in have] != [part.name for part in kind]:
            return column
        parts = [_filled(column.field(i), field.type) for i, field in enumerate(kind)]
        if mask is not None:
            parts = [
                part if field.nullable or not part.null_count else _with_empty(part, mask)
                for part, field in zip(parts, kind, strict=True)
            ]
        fields = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(kind):
        offsets, start, stop = fresh_offsets(column)
        keys = _filled(column.keys.slice(start, stop - start), kind.key_type)
        items = _filled(column.items.slice(start, stop - start), kind.item_type)
        made = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        return map_array(offsets, keys, items, made, mask)
    if pa.types.is_list(kind):
        offsets, start, stop = fresh_offsets(column)
        values = _filled(column.values.slice(start, stop - start), kind.value_type)
        made = pa.list_(kind.value_field.with_type(values.type))
        return pa.ListArray.from_arrays(offsets, values, type=made, mask=mask)
    return column


def _with_empty(part: pa.Array, mask: pa.Array) -> pa.Array:
    # Arrow's own value of a NOT NULL part under a NULL
    empty = pa.array([None], pa.struct([pa.field("", part.type, False)])).field(0)
    under = pc.and_(mask, part.is_null()).to_numpy(zero_copy_only=False)
    at = np.where(under, len(part), np.arange(len(part)))
    return pa.concat_arrays([part, empty]).take(pa.array(at))
