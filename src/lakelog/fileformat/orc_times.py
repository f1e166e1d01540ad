"""Timestamps of ORC files outside of the years 1677 to 2262, which do not fit into the nanoseconds of Arrow's reader.

Apache ORC's C++ reader (``pyorc``) returns them as Python objects. This is slow, so it reads only the columns and
stripes that Arrow rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter, TimestampConverter

from lakelog.io.storage.file_io import FileIO

_ROWS = 8192
_TIMES = (pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT)


class _Micros(TimestampConverter):
    """Microseconds since 1970, as every other ORC reader rounds them: down."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> int:  # type: ignore[override]
        return seconds * 1_000_000 + nanoseconds // 1000


def read_stripe(io: FileIO, path: str, number: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Reads one stripe in batches of at most 8,192 rows.

    ``schema`` has the columns to read with the types that Arrow's reader reports; here, timestamps are microseconds.
    """
    target = pa.schema([pa.field(f.name, _in_micros(f.type)) for f in schema])
    kinds: dict[pyorc.TypeKind, type[ORCConverter]] = dict.fromkeys(_TIMES, _Micros)
    with io.open_input(path) as source:
        reader = pyorc.Reader(source, column_names=schema.names, struct_repr=pyorc.StructRepr.DICT, converters=kinds)
        stripe = reader.read_stripe(number)
        while rows := stripe.read(_ROWS):
            columns = [pa.array([_value(row[f.name], f.type) for row in rows], f.type) for f in target]
            yield pa.RecordBatch.from_arrays(columns, schema=target)


def _in_micros(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(_in_micros(kind.key_type), _in_micros(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_in_micros(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_in_micros(f.type)) for f in kind])
    return kind


def _value(value: Any, kind: pa.DataType) -> Any:
    """The value as ``pa.array`` takes it: a map is a list of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(_value(k, kind.key_type), _value(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_list(kind):
        return [_value(part, kind.value_type) for part in value]
    if pa.types.is_struct(kind):
        return {f.name: _value(value[f.name], f.type) for f in kind}
    return value
