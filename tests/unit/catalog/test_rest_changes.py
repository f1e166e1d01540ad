"""Changes of a schema in the words of the REST catalog's protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog.catalog.rest_changes import change_json
from lakelog.errors import UnsupportedFeature
from lakelog.paimon.schema import changes as schema_change
from lakelog.paimon.schema.changes import (
    FIRST,
    LAST,
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangePosition,
    ChangeTableComment,
    ChangeType,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    after,
    before,
)
from lakelog.paimon.types.types import BIGINT, STRING, parse_type

WORDS = [
    (
        AddColumn(("a", "b"), parse_type("DECIMAL(9, 2)"), "c", after("x")),
        {
            "action": "addColumn",
            "fieldNames": ["a", "b"],
            "dataType": "DECIMAL(9, 2)",
            "comment": "c",
            "move": {"fieldName": "b", "referenceFieldName": "x", "type": "AFTER"},
        },
    ),
    (
        AddColumn(("a",), STRING),
        {"action": "addColumn", "fieldNames": ["a"], "dataType": "STRING", "comment": None, "move": None},
    ),
    (DropColumn(("a",)), {"action": "dropColumn", "fieldNames": ["a"]}),
    (RenameColumn(("a",), "b"), {"action": "renameColumn", "fieldNames": ["a"], "newName": "b"}),
    (
        ChangeType(("a",), BIGINT, True),
        {"action": "updateColumnType", "fieldNames": ["a"], "newDataType": "BIGINT", "keepNullability": True},
    ),
    (
        ChangeNullability(("a",), True),
        {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": True},
    ),
    (ChangeComment(("a",), "c"), {"action": "updateColumnComment", "fieldNames": ["a"], "newComment": "c"}),
    (
        ChangeDefault(("a",), "1"),
        {"action": "updateColumnDefaultValue", "fieldNames": ["a"], "newDefaultValue": "1"},
    ),
    (
        ChangePosition(("a",), before("b")),
        {
            "action": "updateColumnPosition",
            "move": {"fieldName": "a", "referenceFieldName": "b", "type": "BEFORE"},
        },
    ),
    (
        ChangePosition(("a",), FIRST),
        {"action": "updateColumnPosition", "move": {"fieldName": "a", "referenceFieldName": None, "type": "FIRST"}},
    ),
    (
        ChangePosition(("a",), LAST),
        {"action": "updateColumnPosition", "move": {"fieldName": "a", "referenceFieldName": None, "type": "LAST"}},
    ),
    (SetOption("k", "v"), {"action": "setOption", "key": "k", "value": "v"}),
    (RemoveOption("k"), {"action": "removeOption", "key": "k"}),
    (ChangeTableComment(None), {"action": "updateComment", "comment": None}),
]


@pytest.mark.parametrize(("change", "said"), WORDS, ids=lambda value: type(value).__name__)
def test_a_change_in_the_words_of_the_protocol(change: SchemaChange, said: dict[str, Any]) -> None:
    assert json.loads(json.dumps(change_json(change))) == said


def test_every_change_has_a_word() -> None:
    kinds = {k for k in vars(schema_change).values() if isinstance(k, type) and issubclass(k, SchemaChange)}
    assert {type(change) for change, _ in WORDS} == kinds - {SchemaChange}


def test_a_change_without_a_word_is_refused() -> None:
    class Another(SchemaChange):
        def apply(self, schema: Any, has_snapshots: bool) -> Any:
            return schema

    with pytest.raises(UnsupportedFeature, match="Another"):
        change_json(Another())
