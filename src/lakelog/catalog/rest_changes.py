"""Changes of a schema, and new schemas, as the JSON of the REST catalog's protocol. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lakelog.errors import UnsupportedFeature
from lakelog.paimon.schema.changes import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangePosition,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
)
from lakelog.paimon.schema.schema import TableSchema

Json = dict[str, Any]


def change_json(change: SchemaChange) -> Json:
    """One change as an element of an ALTER's ``changes``. Raises UnsupportedFeature if the protocol lacks it."""
    form = _WORDS.get(type(change))
    if form is None:
        raise UnsupportedFeature(f"the REST catalog protocol has no representation of {type(change).__name__}")
    action, content = form
    return {"action": action, **content(change)}


def schema_json(schema: TableSchema) -> Json:
    """The columns, keys and options of a new table; the server assigns its id, time and field ids."""
    out: Json = {
        "fields": [f.to_json() for f in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    return out if schema.comment is None else {**out, "comment": schema.comment}


def _move(name: str, position: Position | None) -> Json | None:
    if position is None:
        return None
    return {"fieldName": name, "referenceFieldName": position.other, "type": position.place.value}


_WORDS: Final[Mapping[type[SchemaChange], tuple[str, Callable[[Any], Json]]]] = {
    AddColumn: (
        "addColumn",
        lambda c: {
            "fieldNames": list(c.path),
            "dataType": c.type.to_json(),
            "comment": c.comment,
            "move": _move(c.path[-1], c.position),
        },
    ),
    DropColumn: ("dropColumn", lambda c: {"fieldNames": list(c.path)}),
    RenameColumn: ("renameColumn", lambda c: {"fieldNames": list(c.path), "newName": c.new_name}),
    ChangeType: (
        "updateColumnType",
        lambda c: {
            "fieldNames": list(c.path),
            "newDataType": c.type.to_json(),
            "keepNullability": c.keep_nullable,
        },
    ),
    ChangeNullability: (
        "updateColumnNullability",
        lambda c: {"fieldNames": list(c.path), "newNullability": c.nullable},
    ),
    ChangeComment: ("updateColumnComment", lambda c: {"fieldNames": list(c.path), "newComment": c.comment}),
    ChangeDefault: ("updateColumnDefaultValue", lambda c: {"fieldNames": list(c.path), "newDefaultValue": c.value}),
    ChangePosition: ("updateColumnPosition", lambda c: {"move": _move(c.path[-1], c.position)}),
    SetOption: ("setOption", lambda c: {"key": c.key, "value": c.value}),
    RemoveOption: ("removeOption", lambda c: {"key": c.key}),
    ChangeTableComment: ("updateComment", lambda c: {"comment": c.comment}),
}
