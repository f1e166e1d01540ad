"""Arrow batches → the records of an Avro data file, and the schema that Paimon's readers expect (format sheet 6.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.types.variant import is_variant, json_texts

_NAME: Final = "org.apache.paimon.avro.generated.record"
_EXACT: Final = Context(prec=76)
_PLAIN: Final = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "bytes",
}  # fmt: skip


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro schema of rows. Raises UnsupportedFeature for timestamps of more than 6 digits."""
    return _FILES.record(list(schema), _NAME)


def avro_records(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as records of plain values: times are numbers, decimals bytes."""
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


class AvroTypes:
    """The Avro types of Arrow's, as Paimon's readers expect them."""

    def record(self, fields: Sequence[pa.Field], name: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [self.field(f, f"{name}_{f.name}") for f in fields]}

    def field(self, field: pa.Field, name: str) -> dict[str, Any]:
        kind = self._type(field, name)
        if field.nullable:
            return {"name": field.name, "type": kind, "default": None}
        return {"name": field.name, "type": kind}

    def _type(self, field: pa.Field, name: str) -> Any:
        kind = self._not_null(field.type, name)
        return ["null", kind] if field.nullable else kind

    def _not_null(self, kind: pa.DataType, name: str) -> Any:
        if kind in _PLAIN:
            return _PLAIN[kind]
        if pa.types.is_decimal(kind):
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        if pa.types.is_date32(kind):
            return {"type": "int", "logicalType": "date"}
        if pa.types.is_time32(kind):
            return {"type": "int", "logicalType": "time-millis"}
        if pa.types.is_timestamp(kind):
            return self.timestamp(kind)
        if pa.types.is_map(kind):
            return self._map(kind, name)
        if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            return {"type": "array", "items": self._type(kind.value_field, name)}
        if is_variant(kind):
            return self.variant()
        if pa.types.is_struct(kind):
            return self.record([kind.field(i) for i in range(kind.num_fields)], name)
        raise _unsupported(kind)

    def _map(self, kind: pa.MapType, name: str) -> Mapping[str, Any]:
        """An Avro map if its keys are text, else a list of pairs."""
        if pa.types.is_string(kind.key_type):
            return {"type": "map", "values": self._type(kind.item_field, name)}
        fields = [
            {"name": "key", "type": self._type(kind.key_field, f"{name}_key")},
            self.field(kind.item_field.with_name("value"), f"{name}_value"),
        ]
        return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": fields}}

    def timestamp(self, kind: pa.TimestampType) -> Mapping[str, str]:
        if kind.unit == "ns":
            raise UnsupportedFeature(
                "Avro timestamps have at most 6 digits: use TIMESTAMP(6), or 'file.format' = 'parquet'"
            )
        # the writers of this format name the types the other way round: local-timestamp has the zone
        prefix = "local-timestamp" if kind.tz else "timestamp"
        return {"type": "long", "logicalType": f"{prefix}-{'millis' if kind.unit == 'ms' else 'micros'}"}

    def variant(self) -> Any:
        raise _unsupported("VARIANT")


_FILES: Final = AvroTypes()


def _unsupported(kind: object) -> UnsupportedFeature:
    return UnsupportedFeature(f"a column of Arrow type {kind} cannot be written as Avro: use 'file.format' = 'parquet'")


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(column.view(pa.int64()).to_pylist())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return list(column.view(pa.int32()).to_pylist())
    if pa.types.is_decimal(kind):
        return [None if v is None else _unscaled(v, kind.scale) for v in column.to_pylist()]
    if pa.types.is_map(kind):
        keys, values = _values(column.keys), _values(column.items)
        pairs = _cut(column, list(zip(keys, values, strict=True)))
        if pa.types.is_string(kind.key_type):
            return [None if p is None else dict(p) for p in pairs]
        return [None if p is None else [{"key": k, "value": v} for k, v in p] for p in pairs]
    if pa.types.is_list(kind):
        return _cut(column, _values(column.values))
    if is_variant(kind):
        return list(json_texts(column, exact=True).to_pylist())
    if pa.types.is_struct(kind):
        names = [kind.field(i).name for i in range(kind.num_fields)]
        parts = zip(*(_values(column.field(i)) for i in range(kind.num_fields)), strict=True)
        valid = column.is_valid().to_pylist()
        return [dict(zip(names, part, strict=True)) if v else None for part, v in zip(parts, valid, strict=True)]
    return list(column.to_pylist())


def _cut(column: pa.Array, values: list[Any]) -> list[Any]:
    """The values of each row of a list or map column."""
    ends = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [values[a:b] if v else None for a, b, v in zip(ends, ends[1:], valid, strict=False)]


def _unscaled(value: Any, scale: int) -> bytes:
    """The digits as the shortest big-endian two's complement."""
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
