"""Rows of a query in the types of the table that they are written to, as Spark assigns them (ANSI)."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidRequest, InvalidSchema
from lakelog.state.spark_functions import NeedsSpark


def stored(rows: pa.Table, schema: pa.Schema, table: str) -> pa.Table:
    """The rows with the types of a table's columns, by position.

    Raises InvalidSchema for another number of columns, InvalidRequest for a value that does not fit, NeedsSpark for a
    type that only Spark converts.
    """
    if rows.num_columns != len(schema):
        names = ", ".join(schema.names)
        raise InvalidSchema(f"the query has {rows.num_columns} columns, and table {table} takes {len(schema)}: {names}")
    columns = [_stored(column, field, table) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _stored(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    have, want = column.type, field.type
    if have == want:
        return column
    numbers = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating)
    is_number = any(test(have) for test in numbers) and any(test(want) for test in numbers)
    is_time = pa.types.is_timestamp(have) and pa.types.is_timestamp(want) and (have.tz is None) == (want.tz is None)
    is_cut = pa.types.is_floating(have) and not pa.types.is_floating(want)
    if not (pa.types.is_null(have) or is_time or (is_number and not is_cut)):
        raise NeedsSpark(f"a value of type {have} in column '{field.name}' of type {want}")
    try:
        return column.cast(want)
    except pa.ArrowInvalid as failed:
        said = str(failed).partition("\n")[0]
        raise InvalidRequest(
            f"column '{field.name}' of table {table} cannot take a value of the query: {said}"
        ) from None
