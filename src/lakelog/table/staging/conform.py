"""Conforms incoming Arrow batches to the table: columns by name, safe casts, no NULL in a key, row kinds as numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.filestore.read.split_reader import engine_of
from lakelog.options.option import Options
from lakelog.options.table import IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_BEFORE, kinds_from_text
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.null_rows import cast_column
from lakelog.paimon.types.variant import VARIANT, is_variant
from lakelog.table.staging.local_times import as_instants, contains_local_times, is_utc, needs_zone
from lakelog.table.staging.text_length import fit_text


def check_columns(given: pa.Schema, schema: TableSchema, table: str) -> None:
    """Checks names and types before a row is written.

    Called by ``conform``, and at planning time so that a wrong DataFrame fails before any task runs. Raises
    InvalidSchema with the column, both types and a remedy.
    """
    target = arrow_schema(schema.fields)
    names = [n for n in given.names if n != ROW_KIND_COLUMN]
    for name in names:
        if name not in target.names:
            near = difflib.get_close_matches(name, target.names, 1)
            hint = f", did you mean '{near[0]}'?" if near else ""
            raise InvalidSchema(f"table {table} has no column '{name}'{hint or '.'} It has: {', '.join(target.names)}")
        if names.count(name) > 1:
            raise InvalidSchema(f"column '{name}' occurs twice in the rows for table {table}")
        have, want = given.field(name).type, target.field(name).type
        if is_variant(want) and not _is_value_of_variant(have):
            raise InvalidSchema(
                f"column '{name}' of table {table} is VARIANT, but the rows have {have}: make a column of "
                "lakelog.variant.from_json of JSON texts, or a struct of the binary columns value and metadata"
            )
        if not _castable(have, want):
            raise InvalidSchema(
                f"column '{name}' of table {table} is {want}, but the rows have {have}: cast it before writing"
            )
    for field in target:
        has_default = schema.field(field.name).default_value is not None
        if field.name not in names and not field.nullable and not has_default:
            raise InvalidSchema(f"column '{field.name}' of table {table} is NOT NULL, but the rows do not have it")
    if ROW_KIND_COLUMN in given.names and not _is_text(given.field(ROW_KIND_COLUMN).type):
        raise InvalidSchema(f"column '{ROW_KIND_COLUMN}' must be text ({', '.join(NAMES)})")


def conform(
    batch: pa.RecordBatch, schema: TableSchema, table: str, defaults: bool = True
) -> tuple[pa.RecordBatch, np.ndarray]:
    """The batch with exactly the table's columns and types, and the row kinds (int8); defaults replace NULL.

    Without ``defaults``, for rows that were already in the table, NULL stays, and lengths of text are not checked.

    Raises InvalidSchema: a column that does not fit, a value that a cast would change, NULL in a column that is NOT
    NULL, an unknown row kind, a retraction for a table without a primary key.
    """
    check_columns(batch.schema, schema, table)
    target = arrow_schema(schema.fields)
    columns = []
    padded = schema.padded_columns
    for field in target:
        index = batch.schema.get_field_index(field.name)
        missing = index < 0
        column = pa.nulls(batch.num_rows, field.type) if missing else _cast(batch.column(index), field, table)
        default = default_scalar(schema.field(field.name))
        if defaults and default is not None and column.null_count:
            column = pc.fill_null(column, default)
        if defaults:
            column = fit_text(column, schema.field(field.name).type, padded.get(field.name), field.name, table)
        if not field.nullable and column.null_count:
            row = pc.index(pc.is_null(column), pa.scalar(True)).as_py()
            what = "primary key" if field.name in schema.primary_keys else "NOT NULL"
            raise InvalidSchema(
                f"NULL in column '{field.name}' of table {table}, which is {what} (row {row} of a batch): set a "
                "value, or filter the row out"
            )
        is_key = field.name in schema.primary_keys
        columns.append(_one_zero(column) if is_key and pa.types.is_floating(field.type) else column)
    return pa.RecordBatch.from_arrays(columns, schema=target), _kinds(batch, schema, table)


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
        _check_retractions(f"'{name}' = '{NAMES[out[bad[0]]]}' for table {table}", schema)
    return out


def _check_retractions(what: str, schema: TableSchema) -> None:
    if not schema.primary_keys:
        raise InvalidSchema(
            f"{what}, which has no primary key and accepts only inserts: declare a primary key, or filter out the "
            "retractions"
        )
    if not engine_of(schema).takes_retractions:
        engine = Options(schema.options).need(MERGE_ENGINE)
        raise InvalidSchema(
            f"{what}, whose merge engine '{engine}' accepts only inserts: filter out the retractions, or set "
            f"'{IGNORE_DELETE.key}' = 'true'"
        )


def _cast(column: pa.Array, field: pa.Field, table: str) -> pa.Array:
    if is_variant(field.type) and not pa.types.is_null(column.type):
        parts = [column.field(part.name).cast(part.type) for part in VARIANT]
        return pa.StructArray.from_arrays(parts, fields=list(VARIANT), mask=column.is_null())
    if column.type == field.type:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if contains_local_times(column.type, field.type):
        if needs_zone(column.type, field.type):
            column = as_instants(column)
        elif not is_utc():
            raise InvalidSchema(
                f"column '{field.name}' of table {table} is {field.type}, but the rows have {column.type}: give the "
                "times in this nested column a time zone"
            )
    try:
        if pa.types.is_integer(column.type) and pa.types.is_decimal(field.type):
            # For a direct cast from an integer, Arrow requires the precision of the type's largest value.
            column = column.cast(_WHOLE)
        return cast_column(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as why:
        raise InvalidSchema(f"column '{field.name}' of table {table} is {field.type}: {why}") from None


def _is_value_of_variant(kind: pa.DataType) -> bool:
    """Whether Arrow values are a VARIANT's: its two parts, in any order, or NULL."""
    if not pa.types.is_struct(kind):
        return bool(pa.types.is_null(kind))
    return sorted(part.name for part in kind) == ["metadata", "value"] and all(_is_bytes(part.type) for part in kind)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _castable(have: pa.DataType, want: pa.DataType) -> bool:
    if pa.types.is_dictionary(have):
        have = have.value_type
    if have == want or pa.types.is_null(have) or (_is_text(have) and _is_text(want)):
        return True
    for family in _FAMILIES:
        if family(have) and family(want):
            return True
    numbers = pa.types.is_integer(have) and (pa.types.is_decimal(want) or pa.types.is_floating(want))
    return bool(numbers)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


_WHOLE = pa.decimal128(20, 0)
"""Type that holds every integer."""

_FAMILIES: Sequence[Callable[[pa.DataType], bool]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_time,
    pa.types.is_nested,
    _is_bytes,
)
