"""Changes and keys in Avro with the ids of a schema registry, of lakelog or of a connector, as rows of a table.

A message is a zero byte, the id of its schema in 4 bytes, and a record of that schema. The record of a value is
Debezium's envelope of ``before``, ``after`` and ``op``. Messages of one schema are read together, and the columns that
they do not have are NULL.

Source: Confluent's documentation, "Wire format"; Debezium's, "Avro Serialization".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakelog.errors import Corrupt
from lakelog.fileformat.messages.columns import Messages
from lakelog.fileformat.messages.schemas import arrow_type, not_null
from lakelog.logstore.encoding.changes import Changes, in_order, no_changes
from lakelog.logstore.encoding.connect_columns import Meaning, converted
from lakelog.logstore.encoding.debezium_changes import changes_no_row, changes_of
from lakelog.logstore.encoding.names_by_case import of_name
from lakelog.logstore.encoding.schema_registry import SchemaRegistry
from lakelog.paimon.types.variant import is_variant

HEAD_BYTES: Final = 5
_MAGIC: Final = b"\0"
_RECORDS: Final = ("record", "error")


def head_of(number: int) -> bytes:
    """The first bytes of a message whose schema has this id."""
    return _MAGIC + number.to_bytes(4, "big")


def schema_id(message: bytes) -> int:
    """The id of a message's schema. Raises Corrupt."""
    if len(message) < HEAD_BYTES or message[:1] != _MAGIC:
        raise Corrupt(
            f"log value {message[:20]!r} does not begin with a zero byte and the id of a schema: its producer does not "
            "use a schema registry, or the format of the log is another one"
        )
    return int.from_bytes(message[1:HEAD_BYTES], "big")


@dataclass(frozen=True)
class _Envelope:
    """A schema of changes for the columns of a table, and the types in which those are read."""

    messages: Messages
    types: Mapping[str, pa.DataType]
    meanings: tuple[Meaning, ...]
    changes_nothing: bool = False


def read_changes(values: pa.LargeBinaryArray, schema: pa.Schema, registry: SchemaRegistry) -> Changes:
    """The changes of records, in order. Raises Corrupt, which names the schema or the field; Unavailable."""
    parts, positions = [], []
    for number, places, messages in _by_schema(values):
        envelope = _envelope(registry, number, schema)
        if envelope.changes_nothing:
            parts.append(no_changes(len(places), schema))
        else:
            parts.append(_read(envelope, messages, schema))
        positions.append(places)
    return in_order(parts, positions) if parts else no_changes(0, schema)


def read_keys(keys: pa.LargeBinaryArray, schema: pa.Schema, registry: SchemaRegistry) -> pa.Table:
    """The key columns (``schema``) of keys. Raises as ``read_changes``."""
    parts, positions = [], []
    for number, places, messages in _by_schema(keys):
        record = _spelled(registry.schema(number), pa.struct(list(schema)))
        fields = _fields(record, f"the schema of a key, with id {number},")
        types = {f.name: arrow_type(fields[f.name]) for f in schema if f.name in fields}
        read = Messages(record).columns(messages, types, HEAD_BYTES)
        columns = [
            converted(read[f.name], f.type, Meaning.of_avro(fields[f.name]), f.name)
            if f.name in read
            else pa.nulls(len(messages), f.type)
            for f in schema
        ]
        parts.append(pa.Table.from_arrays(columns, schema=schema))
        positions.append(places)
    if not parts:
        return schema.empty_table()
    order = np.argsort(np.concatenate(positions), kind="stable")
    return pa.concat_tables(parts).take(pa.array(order)).combine_chunks()


def image_fields(registry: SchemaRegistry, number: int) -> Mapping[str, Any]:
    """The fields of the rows in the changes of a schema, by name. Raises as ``read_changes``."""
    images = _images(registry.schema(number), number, registry)
    return next(iter(images.values()), {})


def _by_schema(values: pa.LargeBinaryArray) -> Iterator[tuple[int, np.ndarray, pa.LargeBinaryArray]]:
    """The messages of each schema: its id, their places among all, and they themselves. Raises Corrupt."""
    if not len(values):
        return
    starts = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    short = np.flatnonzero(np.diff(starts) < HEAD_BYTES)
    if len(short):
        schema_id(values[int(short[0])].as_py())
    data = np.frombuffer(values.buffers()[2], np.uint8)
    heads = data[starts[:-1, None] + np.arange(HEAD_BYTES)]
    odd = np.flatnonzero(heads[:, 0])
    if len(odd):
        schema_id(values[int(odd[0])].as_py())
    numbers = np.ascontiguousarray(heads[:, 1:]).view(">u4")[:, 0]
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        yield number, places, values if len(places) == len(values) else values.take(pa.array(places))


def _read(envelope: _Envelope, messages: pa.LargeBinaryArray, schema: pa.Schema) -> Changes:
    read = envelope.messages.columns(messages, envelope.types, HEAD_BYTES)
    for name in ("before", "after"):
        read.setdefault(name, pa.nulls(len(messages), pa.struct([])))
    read["status"] = pa.nulls(len(messages), pa.string())
    return changes_of(read, schema, envelope.meanings)


@lru_cache(maxsize=128)
def _envelope(registry: SchemaRegistry, number: int, schema: pa.Schema) -> _Envelope:
    described = registry.schema(number)
    if isinstance(described, dict) and changes_no_row(str(described.get("name"))):
        return _Envelope(Messages(described), {}, (), changes_nothing=True)
    images = _images(described, number, registry)
    row = pa.struct(list(schema))
    renamed = [{**f, "type": _spelled(f["type"], row)} if f["name"] in images else f for f in described["fields"]]
    record = {**described, "fields": renamed}
    types: dict[str, pa.DataType] = {"op": pa.string()}
    meanings: dict[str, Meaning] = {}
    for name, fields in _images(record, number, registry).items():
        chosen = [field for field in schema if field.name in fields]
        types[name] = pa.struct([pa.field(field.name, arrow_type(fields[field.name])) for field in chosen])
        for field in chosen:
            meaning = Meaning.of_avro(fields[field.name])
            if meanings.setdefault(field.name, meaning) != meaning:
                raise Corrupt(f"the schema with id {number} has other types in 'before.{field.name}' than in 'after'")
    return _Envelope(Messages(record), types, tuple(meanings.get(field.name, Meaning()) for field in schema))


def _images(schema: Any, number: int, registry: SchemaRegistry) -> dict[str, Mapping[str, Any]]:
    """The fields of ``before`` and ``after`` in an envelope. Raises Corrupt for another schema."""
    what = f"the schema with id {number} of the registry at {registry.url}"
    fields = _fields(schema, what)
    op = not_null(fields.get("op", []))
    images = {name: fields[name] for name in ("before", "after") if name in fields}
    if not op or op["type"] != "string":
        raise Corrupt(f"{what} is no envelope of changes with 'before', 'after' and 'op': it has {list(fields)}")
    return {name: _fields(not_null(image), f"'{name}' of {what}") for name, image in images.items()}


def _fields(schema: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(schema, dict) or schema["type"] not in _RECORDS:
        raise Corrupt(f"{what} is no record")
    return {field["name"]: field["type"] for field in schema["fields"]}


def _spelled(schema: Any, kind: pa.DataType) -> Any:
    """A resolved schema whose records name the columns, and the fields of structs, as a type does."""
    if isinstance(schema, list):
        return [_spelled(part, kind) for part in schema]
    word = schema["type"]
    if word in _RECORDS and pa.types.is_struct(kind) and not is_variant(kind):
        names = {field["name"]: field["name"] for field in schema["fields"]}
        columns = {of_name(names, field.name, ""): field for field in kind}
        return {**schema, "fields": [_renamed(field, columns.get(field["name"])) for field in schema["fields"]]}
    if word == "array" and pa.types.is_list(kind):
        return {**schema, "items": _spelled(schema["items"], kind.value_type)}
    if word == "array" and pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return {**schema, "items": _spelled(schema["items"], pair)}
    if word == "map" and pa.types.is_map(kind):
        return {**schema, "values": _spelled(schema["values"], kind.item_type)}
    return schema


def _renamed(field: Mapping[str, Any], column: pa.Field | None) -> Mapping[str, Any]:
    return field if column is None else {**field, "name": column.name, "type": _spelled(field["type"], column.type)}
