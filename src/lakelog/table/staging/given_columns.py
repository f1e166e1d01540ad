"""Columns of incoming rows as columns of the table: found by name, without another program's encodings.

Names match as in SQL, regardless of case, also those of fields in structs. A name that the table does not have is
refused, and so is a field of a struct that the rows lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidSchema, did_you_mean
from lakelog.merge.table_rules import engine_class
from lakelog.options.option import Options
from lakelog.options.table import MISSING_COLUMNS, MISSING_NULL, ROWKIND_FIELD
from lakelog.paimon.rows.row_kind import INSERT, NAMES, ROW_KIND_COLUMN, UPDATE_AFTER
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.arrow import arrow_schema, fresh_offsets, map_array, plain_column, plain_type
from lakelog.paimon.types.variant import VARIANT, is_variant

Leaf = Callable[[pa.Array, pa.DataType], pa.Array]
"""Makes a column without parts one of another type."""


def check_columns(given: pa.Schema, schema: TableSchema, table: str, missing: str | None = None) -> None:
    """Checks names and types before a row is written.

    Called for each batch, and at planning time so that a wrong DataFrame fails before any task runs. ``missing``
    overrides the table's ``write.missing-columns``. Raises InvalidSchema with the column, both types and a remedy.
    """
    target = arrow_schema(schema.fields)
    lacks = _missing(schema, missing)
    names = [name for name in given.names if name != ROW_KIND_COLUMN]
    places = _places(names, target.names, f"table {table}", "column")
    for field, at in zip(target, places, strict=True):
        if at is not None:
            _check_type(given.field(names[at]).type, field.type, field.name, table, lacks)
        elif not field.nullable and schema.field(field.name).default_value is None:
            raise InvalidSchema(f"column '{field.name}' of table {table} is NOT NULL, but the rows do not have it")
    if not {ROW_KIND_COLUMN, schema.options.get(ROWKIND_FIELD.key)} & set(given.names):
        _check_whole([names[at] for at in places if at is not None], places, schema, table, lacks)
    if ROW_KIND_COLUMN in given.names and not is_text(plain_type(given.field(ROW_KIND_COLUMN).type)):
        raise InvalidSchema(f"column '{ROW_KIND_COLUMN}' must be text ({', '.join(NAMES)})")


def with_own_columns(
    batch: pa.RecordBatch, schema: TableSchema, table: str, missing: str | None = None
) -> pa.RecordBatch:
    """The batch's columns under the table's names, structs with the fields of their columns; values stay as they are.

    A column that the rows lack is still missing. Raises InvalidSchema as ``check_columns``.
    """
    check_columns(batch.schema, schema, table, missing)
    by_name = {field.name: field for field in arrow_schema(schema.fields)}
    names = [name for name in batch.schema.names if name != ROW_KIND_COLUMN]
    places = _places(names, tuple(by_name), "", "")
    own = {names[at]: name for name, at in zip(by_name, places, strict=True) if at is not None}
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        name = own.get(field.name, field.name)
        column = plain_column(column)
        if name in by_name:
            column = as_structure(column, by_name[name].type, lambda leaf, _: leaf)
        columns.append(column)
        fields.append(pa.field(name, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def check_whole_rows(
    given: Sequence[str], kinds: np.ndarray, schema: TableSchema, table: str, missing: str | None
) -> None:
    """Checks that rows which replace others have all columns; a delete needs its key alone. Raises InvalidSchema."""
    if ((kinds == INSERT) | (kinds == UPDATE_AFTER)).any():
        places = [0 if name in given else None for name in schema.field_names]
        _check_whole(given, places, schema, table, _missing(schema, missing))


def as_structure(column: pa.Array, want: pa.DataType, leaf: Leaf) -> pa.Array:
    """A plain column with the structure of a type that ``check_columns`` accepts; ``leaf`` makes its other parts.

    The parts of structs may be NULL, whatever the type says.
    """
    have = column.type
    if pa.types.is_null(have) or have == want:
        return column if have == want else pa.nulls(len(column), want)
    mask = column.is_null() if column.null_count else None
    if is_variant(want):
        values = [column.field(part.name).cast(part.type) for part in VARIANT]
        return pa.StructArray.from_arrays(values, fields=list(VARIANT), mask=mask)
    if pa.types.is_struct(want):
        columns = column.flatten()
        names = [part.name for part in have]
        parts = [
            pa.nulls(len(column), part.type) if at is None else as_structure(columns[at], part.type, leaf)
            for part, at in zip(want, _places(names, [part.name for part in want], "", ""), strict=True)
        ]
        fields = [pa.field(field.name, part.type) for field, part in zip(want, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    if pa.types.is_map(want):
        offsets, start, stop = fresh_offsets(column)
        keys = as_structure(column.keys.slice(start, stop - start), want.key_type, leaf)
        items = as_structure(column.items.slice(start, stop - start), want.item_type, leaf)
        kind = pa.map_(want.key_field.with_type(keys.type), pa.field(want.item_field.name, items.type))
        return map_array(offsets, keys, items, kind, mask)
    if pa.types.is_list(want):
        offsets, start, stop = fresh_offsets(column)
        values = as_structure(column.values.slice(start, stop - start), want.value_type, leaf)
        kind = pa.list_(pa.field(want.value_field.name, values.type))
        return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)
    return leaf(column, want)


def is_text(kind: pa.DataType) -> bool:
    """True for plain text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _missing(schema: TableSchema, missing: str | None) -> bool:
    """True if columns and fields that the rows lack become NULL."""
    return (missing or Options(schema.options).need(MISSING_COLUMNS)) == MISSING_NULL


def _check_whole(
    given: Sequence[str], places: Sequence[int | None], schema: TableSchema, table: str, lacks: bool
) -> None:
    if lacks or not schema.is_keyed or not engine_class(Options(schema.options)).newest_wins:
        return
    names = [
        f"'{field.name}'"
        for field, at in zip(schema.fields, places, strict=True)
        if at is None and field.default_value is None
    ]
    if names:
        raise InvalidSchema(
            f"the rows for table {table} lack the column{'s' * (len(names) > 1)} {', '.join(names)}, and a row "
            "replaces the whole row of its key, so that old values would be lost: give all columns, ask for NULL by "
            f"missing='null' ('{MISSING_COLUMNS.key}' = '{MISSING_NULL}'), or use the merge engine 'partial-update', "
            "which keeps old values"
        )


def _places(given: Sequence[str], wanted: Sequence[str], where: str, what: str) -> list[int | None]:
    """The index of each wanted name in ``given``. Raises InvalidSchema for another name there, or one that is twice."""
    if list(given) == list(wanted):
        return list(range(len(wanted)))
    exact, places = set(wanted), dict.fromkeys(wanted, -1)
    folded: dict[str, list[str]] = {}
    for name in wanted:
        folded.setdefault(name.lower(), []).append(name)
    for at, name in enumerate(given):
        own = [name] if name in exact else folded.get(name.lower(), [])
        if not own:
            hint = did_you_mean(name, wanted, ".")
            raise InvalidSchema(f"{where} has no {what} '{name}'{hint} It has: {', '.join(wanted)}")
        if len(own) > 1:
            raise InvalidSchema(f"{what} '{name}' of the rows for {where} may be '{own[0]}' or '{own[1]}': rename it")
        if places[own[0]] >= 0:
            raise InvalidSchema(f"{what} '{own[0]}' occurs twice in the rows for {where}")
        places[own[0]] = at
    return [None if at < 0 else at for at in places.values()]


def _check_type(have: pa.DataType, want: pa.DataType, path: str, table: str, lacks: bool) -> None:
    """Raises InvalidSchema if values of a type do not become those of another without a cast by the caller."""
    have = plain_type(have)
    if pa.types.is_null(have) or have == want:
        return
    if is_variant(want):
        if not _is_value_of_variant(have):
            raise InvalidSchema(
                f"column '{path}' of table {table} is VARIANT, but the rows have {have}: make a column of "
                "lakelog.variant.from_json of JSON texts, or a struct of the binary columns value and metadata"
            )
    elif pa.types.is_struct(have) and pa.types.is_struct(want):
        where = f"column '{path}' of table {table}"
        names = [part.name for part in want]
        for field, at in zip(want, _places([part.name for part in have], names, where, "field"), strict=True):
            if at is not None:
                _check_type(have.field(at).type, field.type, f"{path}.{field.name}", table, lacks)
            elif not (lacks and field.nullable):
                raise InvalidSchema(
                    f"{where} has the field '{field.name}', which the structs of the rows lack: give it, or ask for "
                    f"NULL by missing='null' ('{MISSING_COLUMNS.key}' = '{MISSING_NULL}')"
                )
    elif pa.types.is_map(have) and pa.types.is_map(want):
        _check_type(have.key_type, want.key_type, f"{path}.key", table, lacks)
        _check_type(have.item_type, want.item_type, f"{path}.value", table, lacks)
    elif pa.types.is_list(have) and pa.types.is_list(want):
        _check_type(have.value_type, want.value_type, f"{path}.element", table, lacks)
    elif not _castable(have, want):
        raise InvalidSchema(
            f"column '{path}' of table {table} is {want}, but the rows have {have}: cast it before writing"
        )


def _is_value_of_variant(kind: pa.DataType) -> bool:
    """Whether Arrow values are a VARIANT's: its two parts, in any order."""
    if not pa.types.is_struct(kind):
        return False
    return sorted(part.name for part in kind) == ["metadata", "value"] and all(_is_bytes(part.type) for part in kind)


def _castable(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a value of a type is one of another, or an error."""
    if any(family(have) and family(want) for family in _FAMILIES):
        return True
    return bool(pa.types.is_integer(have) and (pa.types.is_decimal(want) or pa.types.is_floating(want)))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


_FAMILIES: Final[Sequence[Callable[[pa.DataType], bool]]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    is_text,
    _is_bytes,
)
