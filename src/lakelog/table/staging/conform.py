"""Conforms incoming Arrow batches to the table: safe casts, defaults, lengths, no NULL keys, row kinds as numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import InvalidSchema
from lakelog.filestore.read.split_reader import engine_of
from lakelog.merge.table_rules import engine_class
from lakelog.options.option import Options
from lakelog.options.table import ROWKIND_FIELD
from lakelog.paimon.rows.instants import instant_of
from lakelog.paimon.rows.row_kind import DELETE, INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_BEFORE, kinds_from_text
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, fresh_offsets, map_array
from lakelog.paimon.types.defaults import default_scalar
from lakelog.paimon.types.exact_casts import exact_cast
from lakelog.paimon.types.null_rows import cast_column
from lakelog.paimon.types.types import MAX_LENGTH, ArrayType, AtomicType, DataType, MapType, RowType
from lakelog.table.staging.given_columns import as_structure, check_whole_rows, with_own_columns

_TEXTS: Final = ("VARCHAR", "CHAR")
_SHOWN: Final = 60
"""Maximum number of characters of a value in an error."""


def fit_text(column: pa.Array, kind: DataType, padded: int | None, name: str, table: str) -> pa.Array:
    """The column with texts that fit its type; ``padded`` is the length to which spaces fill them up, None for none.

    Spaces at the end beyond the length are removed, and CHAR inside of arrays, maps and structs is filled up. Raises
    InvalidSchema for longer text, with the value.
    """
    if isinstance(kind, AtomicType):
        if kind.root not in _TEXTS or (length := kind.length or MAX_LENGTH) == MAX_LENGTH:
            return column
        column = _cut(column, kind, length, name, table)
        return column if padded is None else pc.utf8_rpad(column, padded, " ")
    return _fit_parts(column, kind, name, table) if _has_length(kind) else column


def _fit_parts(column: pa.Array, kind: DataType, name: str, table: str) -> pa.Array:
    if isinstance(kind, AtomicType):
        return fit_text(column, kind, kind.length if kind.root == "CHAR" else None, name, table)
    if not _has_length(kind):
        return column
    mask = column.is_null()
    if isinstance(kind, RowType):
        pairs = zip(column.flatten(), kind.fields, strict=True)
        parts = [_fit_parts(part, field.type, f"{name}.{field.name}", table) for part, field in pairs]
        return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=mask)
    if isinstance(kind, ArrayType):
        sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        items = _fit_parts(column.flatten(), kind.element, name, table)
        return pa.ListArray.from_arrays(offsets, items, type=column.type, mask=mask)
    assert isinstance(kind, MapType)
    offsets, start, stop = fresh_offsets(column)
    keys = _fit_parts(column.keys.slice(start, stop - start), kind.key, name, table)
    items = _fit_parts(column.items.slice(start, stop - start), kind.value, name, table)
    return map_array(offsets, keys, items, column.type, mask)


def _has_length(kind: DataType) -> bool:
    if isinstance(kind, RowType):
        return any(_has_length(field.type) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_length(kind.element)
    if isinstance(kind, MapType):
        return _has_length(kind.key) or _has_length(kind.value)
    return isinstance(kind, AtomicType) and kind.root in _TEXTS and kind.length not in (None, MAX_LENGTH)


def _cut(column: pa.Array, kind: AtomicType, length: int, name: str, table: str) -> pa.Array:
    """Texts without the spaces after ``length``."""
    if not len(column) or (pc.max(pc.binary_length(column)).as_py() or 0) <= length:  # a character has 1 to 4 bytes
        return column
    is_long = pc.greater(pc.utf8_length(column), length)
    if not pc.any(is_long).as_py():
        return column
    too_long = pc.greater(pc.utf8_length(pc.utf8_rtrim(column, " ")), length)
    if pc.any(too_long).as_py():
        row = pc.index(too_long, pa.scalar(True)).as_py()
        text = column[row].as_py()
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise InvalidSchema(
            f"column '{name}' of table {table} is {kind.root.lower()}({length}), but '{shown}' (row {row} of a batch) "
            f"has {len(text)} characters: shorten it, or make the column longer"
        )
    return pc.if_else(is_long, pc.utf8_slice_codeunits(column, 0, length), column)


_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_S: Final = -62_104_060_800
"""The year 2: an earlier local time has the offset of then, because its instant may be before the year 1."""
_LAST_S: Final = 253_370_764_800
"""The year 9999: the same at the other end."""


def needs_zone(have: pa.DataType, want: pa.DataType) -> bool:
    """True if the values are times without a zone, and the column has one."""
    return bool(pa.types.is_timestamp(have) and pa.types.is_timestamp(want) and want.tz and not have.tz)


def as_instants(column: pa.Array) -> pa.Array:
    """Local times as instants (zone UTC) in the same unit, as ``instant_of`` gives those of a filter."""
    kind = pa.timestamp(column.type.unit, "UTC")
    is_utc = time.timezone == 0 and not time.daylight
    if is_utc or column.null_count == len(column):
        return column.cast(kind)
    ticks = pc.fill_null(column, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    seconds = np.clip(ticks // per_second, _FIRST_S, _LAST_S)
    offsets = _offsets(seconds)
    return pa.array(ticks - offsets * per_second, mask=column.is_null().to_numpy(zero_copy_only=False)).cast(kind)


def _offsets(seconds: np.ndarray, steps: Sequence[int] = (86_400, 900, 1)) -> np.ndarray:
    """The offset from UTC in seconds of each local time (seconds since 1970).

    A zone seldom changes its offset: only in days with a change are quarters of an hour, or seconds, looked at.
    """
    step = steps[0]
    parts, which = np.unique(seconds // step, return_inverse=True)
    out: np.ndarray = np.array([_offset(int(part) * step) for part in parts], dtype=np.int64)[which]
    if step > 1:
        last = np.array([_offset(int(part) * step + step - 1) for part in parts], dtype=np.int64)[which]
        changed = np.flatnonzero(out != last)
        out[changed] = _offsets(seconds[changed], steps[1:]) if len(changed) else out[changed]
    return out


def _offset(second: int) -> int:
    local = _EPOCH + timedelta(seconds=second)
    return round((local - instant_of(local).replace(tzinfo=None)).total_seconds())


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
        cast = as_structure(column, field.type, _cast_leaf)
        return cast if cast.type == field.type else cast_column(cast, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as why:
        raise InvalidSchema(
            f"column '{field.name}' of table {table} is {field.type}: {why}. Change the rows, or give the column a "
            f"wider type: alter table {table} alter column {field.name} type …"
        ) from None


def _cast_leaf(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column without parts in another type of its family. Raises ArrowInvalid for a value that would change."""
    if needs_zone(column.type, kind):
        column = as_instants(column)
    if pa.types.is_integer(column.type) and pa.types.is_decimal(kind):
        # For a direct cast from an integer, Arrow requires the precision of the type's largest value.
        column = column.cast(_WHOLE)
    return exact_cast(column, kind)


_WHOLE = pa.decimal128(20, 0)
"""Type that holds every integer."""
