"""Avro schemas of single messages: references expanded, the layout of the bytes, and the Arrow types of the values.

A resolved schema has an object with ``type`` for every type, each named type in place of its name, and all properties.
Its layout has the types alone, each under a name of its own: what a reader needs to cut bytes into values.

Source: Apache Avro 1.12 specification, "Names" and "Complex Types".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import Corrupt

_PRIMITIVES: Final = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
_NAMED: Final = ("record", "error", "enum", "fixed")
_DEEPEST: Final = 32
_MOST_TYPES: Final = 10_000
_MOST_EMPTY: Final = 100
"""Fields without a byte in a message, each of which takes some in memory."""


def resolved(schema: Any, others: Iterable[Any] = ()) -> Any:
    """A schema without references. ``others`` are schemas whose named types it may use, in their order.

    Raises Corrupt for what is no schema, a type that contains itself, and a schema of more than 10,000 types or 32
    levels.
    """
    known = _Resolver()
    for other in others:
        known.resolve(other, "", 0)
    out = known.resolve(schema, "", 0)
    _Layout().of(out, 0)
    return out


def layout(schema: Any) -> Any:
    """The layout of a resolved schema."""
    return _Layout().of(schema, 0)


def not_null(schema: Any) -> Any:
    """The only other type of a union with null, or the type itself; None for a union of several types."""
    if not isinstance(schema, list):
        return schema
    parts = [part for part in schema if part["type"] != "null"]
    return parts[0] if len(parts) == 1 else None


def arrow_type(schema: Any) -> pa.DataType:
    """The Arrow type of raw values: numbers, bytes and texts. Raises Corrupt for a union of several types."""
    kind = not_null(schema)
    if kind is None:
        raise Corrupt("a value has a union of several types, which a column cannot have")
    word = kind["type"]
    if word == "array":
        return pa.list_(arrow_type(kind["items"]))
    if word == "map":
        return pa.map_(pa.string(), arrow_type(kind["values"]))
    if word in ("record", "error"):
        return pa.struct([pa.field(field["name"], arrow_type(field["type"])) for field in kind["fields"]])
    return {"enum": pa.string(), "fixed": pa.binary()}.get(word) or _PRIMITIVES[word]


class _Resolver:
    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()

    def resolve(self, schema: Any, space: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Corrupt(f"an Avro schema has more than {_DEEPEST} levels")
        if isinstance(schema, list):
            if any(isinstance(part, list) for part in schema):
                raise Corrupt("a union of an Avro schema contains a union")
            return [self.resolve(part, space, depth + 1) for part in schema]
        if isinstance(schema, str):
            return {"type": schema} if schema in _PRIMITIVES else self._reference(schema, space)
        word = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(word, dict | list):
            return self.resolve(word, space, depth + 1)
        if word in _NAMED:
            return self._definition(schema, space, depth)
        if word in ("array", "map"):
            part = "items" if word == "array" else "values"
            return {**schema, part: self.resolve(schema.get(part), space, depth + 1)}
        if isinstance(word, str):
            return dict(schema) if word in _PRIMITIVES else self._reference(word, space)
        raise Corrupt(f"an Avro schema has {str(schema)[:100]} where a type should be")

    def _reference(self, name: str, space: str) -> Any:
        for full in (_full(name, space), name):
            if full in self._named:
                return self._named[full]
            if full in self._open:
                raise Corrupt(f"the Avro type '{full}' contains itself, which no column can")
        raise Corrupt(f"an Avro schema names the type '{name}', which it does not define")

    def _definition(self, schema: Mapping[str, Any], space: str, depth: int) -> Any:
        name, namespace = schema.get("name"), schema.get("namespace", space)
        if not isinstance(name, str) or not isinstance(namespace, str):
            raise Corrupt(f"an Avro schema has a {schema['type']} without a name")
        full = _full(name, namespace)
        out = {**schema, "name": full}
        if schema["type"] in ("record", "error"):
            fields = schema.get("fields")
            if not isinstance(fields, list) or not all(isinstance(f, dict) and _has_name(f) for f in fields):
                raise Corrupt(f"the fields of the Avro record '{full}' are no list of named fields")
            if len({field["name"] for field in fields}) < len(fields):
                raise Corrupt(f"the Avro record '{full}' has two fields of the same name")
            self._open.add(full)
            inner = full.rpartition(".")[0]
            out["fields"] = [{**f, "type": self.resolve(f.get("type"), inner, depth + 1)} for f in fields]
            self._open.discard(full)
        self._named[full] = out
        return out


class _Layout:
    def __init__(self) -> None:
        self._count = self._empty = 0

    def of(self, schema: Any, depth: int) -> Any:
        self._count += 1
        if self._count > _MOST_TYPES or depth > _DEEPEST:
            raise Corrupt(f"an Avro schema has more than {_MOST_TYPES} types or {_DEEPEST} levels")
        if isinstance(schema, list):
            self._empty -= sum(part["type"] == "null" for part in schema)  # it is the number of the type
            return [self.of(part, depth + 1) for part in schema]
        self._empty += schema["type"] == "null" or not schema.get("fields", True) or not schema.get("size", True)
        if self._empty > _MOST_EMPTY:
            raise Corrupt(f"an Avro schema has more than {_MOST_EMPTY} fields that take no byte")
        word, name = schema["type"], f"t{self._count}"
        if word == "array":
            return {"type": word, "items": self.of(schema["items"], depth + 1)}
        if word == "map":
            return {"type": word, "values": self.of(schema["values"], depth + 1)}
        if word == "enum":
            return {"type": word, "name": name, "symbols": schema.get("symbols")}
        if word == "fixed":
            return {"type": word, "name": name, "size": schema.get("size")}
        if word in ("record", "error"):
            fields = [{"name": f["name"], "type": self.of(f["type"], depth + 1)} for f in schema["fields"]]
            return {"type": "record", "name": name, "fields": fields}
        return "long" if word == "int" else word  # the same bytes; polars cuts an int of more than 32 bits


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _has_name(field: Mapping[str, Any]) -> bool:
    return isinstance(field.get("name"), str) and bool(field["name"])
