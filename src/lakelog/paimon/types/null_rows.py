"""Casts of rows whose nested values are NULL.

Where a row is NULL, Arrow's kernels and other writers leave NULL in its NOT NULL parts, and Arrow's own cast fails.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.paimon.types.evolution import fresh_offsets, map_array


def cast_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as ``schema``, as ``Table.cast`` does it. Raises ArrowInvalid and ValueError as that."""
    if not any(_has_needed_part(field.type) for field in rows.schema):
        return rows.cast(schema)
    columns = [
        pa.chunked_array([_filled(chunk) for chunk in column.chunks], column.type)
        if _has_needed_part(column.type)
        else column
        for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema).cast(schema)


def _has_needed_part(kind: pa.DataType) -> bool:
    """Whether a type is or contains a row with a NOT NULL part."""
    parts = [kind.field(i) for i in range(kind.num_fields)]
    own = pa.types.is_struct(kind) and any(not part.nullable for part in parts)
    return own or any(_has_needed_part(part.type) for part in parts)


def _filled(column: pa.Array) -> pa.Array:
    """The column with an empty value in each NOT NULL part of a row that is NULL."""
    kind = column.type
    if not _has_needed_part(kind):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = [_filled(column.field(i)) for i in range(kind.num_fields)]
        if mask is not None:
            parts = [
                part if field.nullable or not part.null_count else _with_empty(part, field, mask)
                for part, field in zip(parts, kind, strict=True)
            ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        offsets, start, stop = fresh_offsets(column)
        keys, items = (_filled(part.slice(start, stop - start)) for part in (column.keys, column.items))
        return map_array(offsets, keys, items, kind, mask)
    if pa.types.is_list(kind):
        offsets, start, stop = fresh_offsets(column)
        values = _filled(column.values.slice(start, stop - start))
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    return column


def _with_empty(part: pa.Array, field: pa.Field, mask: pa.Array) -> pa.Array:
    empty = pa.array([None], pa.struct([field])).field(0)  # Arrow's own value under a NULL
    under = pc.and_(mask, part.is_null()).to_numpy(zero_copy_only=False)
    at = np.where(under, len(part), np.arange(len(part)))
    return pa.concat_arrays([part, empty]).take(pa.array(at))
