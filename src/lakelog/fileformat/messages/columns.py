"""Avro messages, one record each without a header, as columns, and records as messages.

Messages of one schema become one container file in memory, which polars reads. Behind each message is a marker of
random bytes: if one takes more or fewer bytes than its own, the markers do not come out where they should. fastavro
reads, one by one, schemas that polars does not: maps, enums, fixed, and unions of several types.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.schema import SchemaParseException, parse_schema
from polars.exceptions import PanicException, PolarsError

from lakelog.errors import Corrupt
from lakelog.fileformat.avro_container import SCHEMA_KEY, Container
from lakelog.fileformat.avro_file import check_sizes
from lakelog.fileformat.messages.schemas import layout, not_null
from lakelog.io.names import new_attempt

_RECORD: Final = "lakelog_message"
_HEAD: Final = "lakelog_head_of_message"
_END: Final = "lakelog_end_of_message"
_READ: Final = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))
_INVALID: Final = (
    ValueError, LookupError, EOFError, TypeError, AttributeError, RecursionError, ArithmeticError, SchemaParseException,
)  # fmt: skip


class Messages:
    """Reader and writer of the messages of one resolved schema of a record. Raises Corrupt if it cannot be one.

    ``is_plain`` says whether polars reads the schema.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._layout: Any = None if schema is None else layout(schema)
        try:
            check_sizes(self._layout, set())
        except (LookupError, TypeError, AttributeError) as why:
            raise Corrupt(f"an Avro schema is invalid: {why!r}") from None
        if not isinstance(self._layout, dict) or self._layout["type"] != "record":
            raise Corrupt("the messages of an Avro schema are no records")
        self._fields: dict[str, Messages] = {}
        self.is_plain = bool(self._layout["fields"]) and _is_plain(self._layout)

    def columns(
        self, messages: pa.LargeBinaryArray, types: Mapping[str, pa.DataType], head: int = 0
    ) -> dict[str, pa.Array]:
        """Fields of the messages (none null), raw, in these types.

        A type is that of ``arrow_type``, or a struct with some of its fields. Messages begin after ``head`` bytes.
        Raises Corrupt, also for a message that takes more or fewer bytes than it has.
        """
        columns = self.by_polars(messages, types, head) if self.is_plain and len(messages) > 1 else None
        if columns is None:
            records = self.records(message[head:] for message in messages.to_pylist())
            columns = {name: pa.array([record[name] for record in records], kind) for name, kind in types.items()}
        return columns

    def records(self, messages: Iterable[bytes]) -> list[dict[str, Any]]:
        """The messages as records of raw values. Raises Corrupt."""
        return [self._record(message) for message in messages]

    def messages(self, records: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """Records of raw values as messages."""
        schema, out = self._parsed, []
        for record in records:
            sink = io.BytesIO()
            fastavro.schemaless_writer(sink, schema, record)
            out.append(sink.getvalue())
        return out

    def of_field(self, name: str) -> Messages:
        """The messages of a field that is a record or null. Raises Corrupt for another one."""
        if name not in self._fields:
            kind = next((field["type"] for field in self.schema["fields"] if field["name"] == name), None)
            self._fields[name] = Messages(not_null(kind))
        return self._fields[name]

    @functools.cached_property
    def _parsed(self) -> Any:
        try:
            return parse_schema(self._layout)
        except _INVALID as why:
            raise Corrupt(f"an Avro schema is invalid: {why!r}") from None

    def _record(self, message: bytes) -> dict[str, Any]:
        source = io.BytesIO(message)
        try:
            record: Any = fastavro.schemaless_reader(source, self._parsed, None)
        except _INVALID as why:
            raise Corrupt(f"an Avro message is not of its schema: {why!r}") from None
        if source.tell() != len(message):
            raise Corrupt(f"an Avro message has {len(message)} bytes, and its schema ends after {source.tell()}")
        return dict(record)

    def by_polars(
        self, messages: pa.LargeBinaryArray, types: Mapping[str, pa.DataType], head: int
    ) -> dict[str, pa.Array] | None:
        """The columns by polars; None if it cannot read them, or if the messages are not as long as they say."""
        marker = new_attempt().encode()
        start = [{"name": _HEAD, "type": {"type": "fixed", "name": _HEAD, "size": head}}] if head else []
        fields = [*start, *self._layout["fields"], {"name": _END, "type": "bytes"}]
        schema = {"type": "record", "name": _RECORD, "fields": fields}
        end = pa.scalar(bytes([2 * len(marker)]) + marker, pa.large_binary())
        data = _joined(messages, end)
        file = Container({SCHEMA_KEY: json.dumps(schema).encode()}, marker, ((len(messages), data),)).to_bytes("null")
        try:
            frame = pl.read_avro(io.BytesIO(file), columns=[*types, _END])
            if len(frame) != len(messages) or not (frame.get_column(_END) == pl.Series([marker])).all():
                return None
            return {name: _of_series(frame.get_column(name), kind) for name, kind in types.items()}
        except (PolarsError, PanicException, pa.ArrowException, OSError):
            return None


def _joined(messages: pa.LargeBinaryArray, end: pa.Scalar) -> bytes:
    lines = pa.LargeListArray.from_arrays(pa.array([0, len(messages)], pa.int64()), messages)
    joined = pc.binary_join(lines, end)[0]
    return b"".join((joined.as_buffer(), end.as_py()))


def _of_series(series: pl.Series, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind) and isinstance(series.dtype, pl.Struct):
        parts = [_of_series(series.struct.field(field.name), field.type) for field in kind]
        nulls = series.is_null().to_arrow()
        if parts:
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
        return pa.array([None if null else {} for null in nulls.to_pylist()], kind)
    return pc.cast(series.to_arrow(compat_level=pl.CompatLevel.oldest()), kind)


def _is_plain(schema: Any) -> bool:
    """Whether polars reads the type: primitives, records, arrays, and such types or null."""
    if isinstance(schema, list):
        others = [part for part in schema if part != "null"]
        return len(schema) == 2 and len(others) == 1 and _is_plain(others[0])
    if isinstance(schema, str):
        return schema in _READ
    if schema["type"] == "record":
        return bool(schema["fields"]) and all(_is_plain(field["type"]) for field in schema["fields"])
    return bool(schema["type"] == "array") and _is_plain(schema["items"])
