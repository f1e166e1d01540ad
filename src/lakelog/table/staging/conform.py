"""Conforms incoming Arrow batches to the table: safe casts, defaults, no NULL in a key, row kinds as numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.filestore.read.split_reader import engine_of
from lakelog.merge.table_rules import engine_class
from lakelog.options.option import Options
from lakelog.options.table import ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_BEFORE, kinds_from_text
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.null_rows import cast_column
from lakelog.table.staging.given_columns import as_structure, check_whole_rows, with_own_columns
from lakelog.table.staging.local_times import as_instants, needs_zone
from lakelog.table.staging.text_length import fit_text


def conform(
    batch: pa.RecordBatch, schema: TableSchema, table: str, is_new: bool = True, missing: str | None = None
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The batch with exactly the table's columns and types, and the row kinds (int8).

    A column that the rows lack has its default, or NULL. A NULL that they have stays. Lengths of text are checked in
    new rows, not in those that were already in the table (``is_new`` false). ``missing`` overrides the table's
    ``write.missing-columns``.

    Raises InvalidSchema: a column that does not fit, a value that a cast would change, NULL in a column that is NOT
    NULL, an unknown row kind, a retraction for a table without a primary key.
    """
    batch = with_own_columns(batch, schema, table, missing)
    kinds = _kinds(batch, schema, table)
    check_whole_rows(batch.schema.names, kinds, schema, table, missing)
    target = arrow_schema(schema.fields)
    columns = []
    padded = schema.padded_columns
    for field in target:
        index = batch.schema.get_field_index(field.name)
        kind = schema.field(field.name).type
        column = _missing(schema, field, batch.num_rows) if index < 0 else _cast(batch.column(index), field, table)
        if is_new:
            column = fit_text(column, kind, padded.get(field.name), field.name, table)
        if not field.nullable and column.null_count:
            row = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
            what = "primary key" if field.name in schema.primary_keys else "NOT NULL"
            raise InvalidSchema(
                f"NULL in column '{field.name}' of table {table}, which is {what} (row {row} of a batch): set a "
                "value, or filter the row out"
            )
        is_key = field.name in schema.primary_keys
        columns.append(_one_zero(column) if is_key and pa.types.is_floating(field.type) else column)
    return pa.RecordBatch.from_arrays(columns, schema=target), kinds


def _missing(schema: TableSchema, field: pa.Field, rows: int) -> pa.Array:
    """A column that the rows lack: its default, but NULL where the merge engine takes that for no change."""
    default = default_scalar(schema.field(field.name))
    is_kept = engine_class(Options(schema.options)).null_keeps and field.name not in schema.primary_keys
    return pa.nulls(rows, field.type) if default is None or is_kept else pa.repeat(default, rows)


def _one_zero(key: pa.Array) -> pa.Array:
    """A floating key column with one zero and one NaN: -0.0 and 0.0 are one key in the files and in the log."""
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), pc.add(key, pa.scalar(0.0, key.type)))


def _kinds(batch: pa.RecordBatch, schema: TableSchema, table: str) -> np.ndarray:
    name = schema.options.get(ROWKIND_FIELD.key, ROW_KIND_COLUMN)
    index = batch.schema.get_field_index(name)
    if index < 0:
        if name != ROW_KIND_COLUMN:
            raise InvalidSchema(f"column '{name}' holds the row kind of table {table}, but the rows do not have it")
        return np.full(batch.num_rows, INSERT, dtype=np.int8)
    try:
        out: np.ndarray = kinds_from_text(batch.column(index), name).to_numpy()
    except InvalidSchema as why:
        raise InvalidSchema(f"table {table}: {why}") from None
    bad = np.flatnonzero((out == UPDATE_BEFORE) | (out == DELETE))
    if len(bad):
        for kind in np.unique(out[bad]).tolist():
            _check_retractions(kind, f"'{name}' = '{NAMES[kind]}' for table {table}", schema)
    return out


def _check_retractions(kind: int, what: str, schema: TableSchema) -> None:
    if not schema.primary_keys:
        raise InvalidSchema(
            f"{what}, which has no primary key and accepts only inserts: declare a primary key, or filter out the "
            "retractions"
        )
    fault = engine_of(schema).retraction_fault(kind)
    if fault is not None:
        raise InvalidSchema(f"{what}: {fault}")


def _cast(column: pa.Array, field: pa.Field, table: str) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        found = as_structure(column, field.type, _cast_leaf)
        return found if found.type == field.type else cast_column(found, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as why:
        raise InvalidSchema(f"column '{field.name}' of table {table} is {field.type}: {why}") from None


def _cast_leaf(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column without parts in another type of its family. Raises ArrowInvalid for a value that would change."""
    if needs_zone(column.type, kind):
        column = as_instants(column)
    if pa.types.is_integer(column.type) and pa.types.is_decimal(kind):
        # For a direct cast from an integer, Arrow requires the precision of the type's largest value.
        column = column.cast(_WHOLE)
    found = column.cast(kind)
    if pa.types.is_floating(kind) and pa.types.is_floating(column.type):
        lost = pc.and_(pc.is_finite(column), pc.invert(pc.is_finite(found)))
        if pc.any(lost).as_py():
            raise pa.ArrowInvalid(f"{column.filter(lost)[0].as_py()!r} is outside the range of this type")
    return found


_WHOLE = pa.decimal128(20, 0)
"""Type that holds every integer."""
