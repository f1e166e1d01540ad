"""The Avro schema of rows as messages for any reader; ``avro_rows.avro_records`` makes their records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import UnsupportedFeature
from lakelog.fileformat.avro_rows import AvroTypes

_NAMESPACE: Final = "lakelog"
_FIELD_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_UNITS: Final = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}


def message_schema(schema: pa.Schema, name: str) -> dict[str, Any]:
    """The Avro schema of rows as messages for any reader; all columns may be null. ``name`` is that of the record.

    Raises UnsupportedFeature for a column whose name Avro cannot have.
    """
    return _MessageTypes().record([field.with_nullable(True) for field in schema], f"{_NAMESPACE}.{name}")


class _MessageTypes(AvroTypes):
    """The Avro types of Arrow's, as the specification names them."""

    def field(self, field: pa.Field, name: str) -> dict[str, Any]:
        if not _FIELD_NAME.fullmatch(field.name):
            raise UnsupportedFeature(
                f"column '{field.name}' cannot be a field in Avro, whose names have only letters A-Z, digits and '_': "
                "rename it, or use 'log-store.data-format' = 'debezium-json'"
            )
        return super().field(field, name)

    def timestamp(self, kind: pa.TimestampType) -> Mapping[str, str]:
        prefix = "timestamp" if kind.tz else "local-timestamp"
        return {"type": "long", "logicalType": f"{prefix}-{_UNITS[kind.unit]}"}

    def variant(self) -> Any:
        return {"type": "string", "connect.name": "io.debezium.data.Json"}
