"""Rows of a file with one JSON object per line, for ``lakelog load``.

Arrow reads what it can. Files with maps, NaN as text, or dates inside of arrays are read object by object. Text of
dates, times and bytes is what ``lakelog export`` writes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pjson

from lakelog.errors import Corrupt
from lakelog.logstore.encoding.json_rows import has_long_decimals, parsed_object, restored, times
from lakelog.paimon.types.exact_casts import check_digits, wide_type


def read_json_lines(data: bytes, schema: pa.Schema) -> pa.Table:
    """The rows of a file, in the types of a table's columns, without the columns that no line has.

    Columns that the table does not have stay. Raises Corrupt and Arrow's errors for what does not fit.
    """
    rows = None if has_long_decimals(data, schema) else _read(data, schema)
    return _read_slowly(data, schema) if rows is None else rows


def _read(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """The rows as Arrow reads them; None if it cannot."""
    known = [f.with_type(pa.string() if _is_text(f.type) else wide_type(f.type)) for f in schema]
    raw = pa.schema([field for field in known if f'"{field.name}"'.encode() in data])
    try:
        rows = check_digits(
            pjson.read_json(pa.BufferReader(data), parse_options=pjson.ParseOptions(explicit_schema=raw))
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    for at, field in enumerate(rows.schema):
        if field.name in schema.names and _is_text(kind := schema.field(field.name).type):
            column = _from_text(rows.column(at).combine_chunks(), field.name, kind)
            rows = rows.set_column(at, field.with_type(kind), column)
    return rows


def _read_slowly(data: bytes, schema: pa.Schema) -> pa.Table:
    objects = [parsed_object(line) for line in data.splitlines() if line.strip()]
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(objects)):
        values = [value.get(name) for value in objects]
        columns[name] = _column(values, schema.field(name)) if name in schema.names else pa.array(values)
    return pa.table(columns)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        if _is_text(field.type):
            return _from_text(pa.array(values, pa.string()), field.name, field.type)
        return pa.array([restored(value, field.type) for value in values], field.type)
    except (pa.ArrowException, ValueError, TypeError, AttributeError, LookupError) as why:
        raise Corrupt(f"a value of column '{field.name}' is not of type {field.type}: {why}") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _from_text(texts: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    """Dates, times and bytes from text; a time without a zone is none of a column with one, as in CSV."""
    try:
        if pa.types.is_time(kind):
            return times(texts, kind)
        if pa.types.is_temporal(kind):
            return pc.cast(texts, kind)
        return pa.array([None if text is None else _bytes(text) for text in texts.to_pylist()], kind)
    except (pa.ArrowInvalid, ValueError) as why:
        raise Corrupt(f"a value of column '{name}' is not of type {kind}: {why}") from None


def _bytes(text: str) -> bytes:
    """The bytes of ``0x00ff``; of any other text those of UTF-8."""
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
