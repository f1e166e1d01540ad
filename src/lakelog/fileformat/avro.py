"""Avro data files (format sheet 6.5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.avro_file import Record, read_parts, read_schema, write_records
from lakelog.fileformat.avro_rows import avro_records, avro_schema
from lakelog.fileformat.base import (
    BATCH_ROWS,
    FileFormat,
    corrupt_file,
    limited,
    matching_rows,
    read_errors,
    select_columns,
    with_types,
)
from lakelog.io.storage.file_io import FileIO
from lakelog.paimon.types.types import DataField

_PLAIN: Final = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip
_LOGICAL: Final = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    # the writers of this format name the types the other way round: local-timestamp has the zone
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "local-timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "local-timestamp-micros": pa.timestamp("us", tz="UTC"),
}
_EXACT: Final = Context(prec=76)

Convert = Callable[[Any], Any]


class AvroFormat(FileFormat):
    """Row-oriented, with the bytes of a whole file in memory. Parquet is much faster; Avro is for short-lived rows."""

    name = "avro"
    compressions: ClassVar[tuple[str, ...]] = ("zstd", "none", "null")

    def file_columns(self, io: FileIO, path: str) -> list[str]:
        return [f["name"] for f in read_schema(io.read(path))["fields"]]

    def read(
        self,
        io: FileIO,
        path: str,
        columns: Sequence[str] | None = None,
        batch_rows: int = BATCH_ROWS,
        filter: pc.Expression | None = None,
        fields: Sequence[DataField] | None = None,
        filter_columns: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        data = io.read(path)
        with corrupt_file(path):
            by_name = {f["name"]: f["type"] for f in read_schema(data)["fields"]}
        names = select_columns(path, list(by_name), columns)
        # a filter may use columns that are not requested
        read = names if names and filter is None else list(by_name)
        with corrupt_file(path), read_errors(path, "Avro"):
            slices = (rows for part in read_parts(data) for rows in _slices(part, batch_rows))
            batches = limited(path, len(data), (_batch(part, read, by_name) for part in slices))
            yield from matching_rows((with_types(batch, fields) for batch in batches), filter, names)

    def write(
        self,
        io: FileIO,
        path: str,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        compression: str = "zstd",
        level: int | None = 1,
    ) -> int:
        self.check_compression(compression)
        records = itertools.chain.from_iterable(avro_records(batch) for batch in batches)
        data = write_records(avro_schema(schema), records, compression)
        io.write(path, data)
        return len(data)


def _slices(records: Iterator[Record], batch_rows: int) -> Iterator[list[Record]]:
    while rows := list(itertools.islice(records, batch_rows)):
        yield rows


def _batch(records: Sequence[Record], names: Sequence[str], types: Mapping[str, Any]) -> pa.RecordBatch:
    arrays, fields = [], []
    for name in names:
        kind, convert, nullable = _arrow(types[name])
        values = [r[name] for r in records]
        arrays.append(pa.array(values if convert is None else [convert(v) for v in values], kind))
        fields.append(pa.field(name, kind, nullable))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _arrow(schema: Any) -> tuple[pa.DataType, Convert | None, bool]:
    """(Arrow type, conversion of raw values, nullable) of an Avro type."""
    if isinstance(schema, list):
        parts = [p for p in schema if p != "null"]
        if len(parts) != 1:
            raise UnsupportedFeature(f"an Avro union of {len(parts)} types cannot be read")
        kind, convert, _ = _arrow(parts[0])
        return kind, _unless_null(convert), True
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise UnsupportedFeature(f"an Avro value of type '{schema}' cannot be read")
        return _PLAIN[schema], None, False
    logical, word = schema.get("logicalType"), schema["type"]
    if logical in _LOGICAL:
        return _LOGICAL[logical], None, False
    if logical == "decimal":
        return _decimal(schema)
    if word == "array":
        return _array(schema, pairs=logical == "map")
    if word == "map":
        value, convert, nullable = _arrow(schema["values"])
        kind = pa.map_(pa.string(), pa.field("value", value, nullable))
        return kind, lambda v: [(k, convert(x) if convert else x) for k, x in v.items()], False
    if word == "record":
        return _record(schema)
    return _arrow(word)


def _decimal(schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert, bool]:
    scale = schema.get("scale", 0)

    def convert(raw: bytes) -> Decimal:
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _EXACT)

    return pa.decimal128(schema["precision"], scale), convert, False


def _array(schema: Mapping[str, Any], pairs: bool) -> tuple[pa.DataType, Convert, bool]:
    """A list; with ``pairs`` a list of key-value records, which represents a map without text keys."""
    kind, convert, nullable = _arrow(schema["items"])
    if pairs:
        kind_of_map = pa.map_(kind.field(0).type, kind.field(1))
        return kind_of_map, lambda v: [tuple((convert(x) if convert else x).values()) for x in v], False
    kind_of_map = pa.list_(pa.field("element", kind, nullable))
    return kind_of_map, lambda v: [convert(x) for x in v] if convert else v, False


def _record(schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert, bool]:
    parts = [(f["name"], *_arrow(f["type"])) for f in schema["fields"]]
    kind = pa.struct([pa.field(name, part, nullable) for name, part, _, nullable in parts])
    return kind, lambda v: {name: (c(v[name]) if c else v[name]) for name, _, c, _ in parts}, False


def _unless_null(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda v: None if v is None else convert(v)
