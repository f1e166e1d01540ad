"""Rows made with one schema as rows of another, and whether that works, asked before a schema changes."""

from __future__ import annotations

import pyarrow as pa

from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, arrow_type
from lakelog.paimon.types.casts import can_cast
from lakelog.paimon.types.evolution import as_before, evolve, same_type
from lakelog.paimon.types.types import ArrayType, DataType, MapType, RowType


def can_read_as(old: DataType, new: DataType) -> bool:
    """Whether files with a column of the old type are read when the column has the new one."""
    if isinstance(old, RowType) and isinstance(new, RowType):
        before = {f.id: f.type for f in old.fields}
        return all(can_read_as(before[f.id], f.type) for f in new.fields if f.id in before)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return can_read_as(old.element, new.element)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return same_type(old.key, new.key) and can_read_as(old.value, new.value)
    return can_cast(old, new)


def rows_as(rows: pa.Table, written: TableSchema, table: TableSchema) -> pa.Table:
    """Rows that were made with one schema as those of another: columns by field id, cast where their types differ.

    ``rows`` may have more columns behind those of ``written``; they stay at the end. Raises UnsupportedFeature,
    InvalidSchema for a value that has no counterpart.
    """
    sources = {f.id: f for f in written.fields}
    change = as_before if written.id > table.id else evolve
    columns = []
    for field in table.fields:
        source = sources.get(field.id)
        if source is None:
            columns.append(pa.nulls(rows.num_rows, arrow_type(field.type)))
        else:
            values = rows.column(source.name).combine_chunks()
            columns.append(change(values, source.type, field.type, field.name))
    others = [name for name in rows.column_names if name not in written.field_names]
    schema = pa.schema([*arrow_schema(table.fields), *(rows.schema.field(name) for name in others)])
    return pa.Table.from_arrays([*columns, *(rows.column(name) for name in others)], schema=schema)
