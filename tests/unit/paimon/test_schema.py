from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import Corrupt, InvalidOption, InvalidSchema, LakelogError, UnsupportedFeature
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.arrow import arrow_schema
from lakelog.paimon.types.types import BIGINT, INT, STRING, ArrayType, AtomicType, DataField, DataType, MapType, RowType

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
SCHEMAS = sorted(GOLDEN.glob("*/g.db/*/schema/schema-*"))
COLUMNS: Sequence[tuple[str, DataType, str | None]] = [
    ("id", BIGINT, None),
    ("name", STRING, "what people call it"),
    ("day", AtomicType("DATE"), None),
]


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.parts[-3])
def test_a_schema_of_paimon_is_written_as_it_was_read(path: Path) -> None:
    schema = TableSchema.from_json(path.read_bytes())
    assert json.loads(schema.to_json()) == json.loads(path.read_bytes())
    assert TableSchema.from_json(schema.to_json()) == schema


def test_a_new_schema_numbers_columns_first_and_nested_fields_after_them() -> None:
    point = RowType((DataField(-1, "x", INT), DataField(-1, "y", ArrayType(RowType((DataField(-1, "z", INT),))))))
    schema = new_schema([("a", point, None), ("b", INT, None), ("c", MapType(STRING, point), None)])
    assert [f.id for f in schema.fields] == [0, 1, 2]
    first, last = schema.fields[0].type, schema.fields[2].type
    assert isinstance(first, RowType)
    assert isinstance(last, MapType)
    assert isinstance(last.value, RowType)
    assert [f.id for f in first.fields] == [3, 4]
    assert [f.id for f in last.value.fields] == [6, 7]
    assert schema.highest_field_id == 8


def test_primary_key_columns_become_not_null() -> None:
    schema = new_schema(COLUMNS, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": "4"})
    assert [f.type.nullable for f in schema.fields] == [False, True, False]
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("id",)
    assert (schema.num_buckets, schema.is_keyed) == (4, True)
    assert schema.field("name").description == "what people call it"


def test_keys_given_as_options_are_moved_into_the_keys() -> None:
    schema = new_schema(COLUMNS, options={"primary-key": "id, day", "partition": "day", "bucket": "1"})
    assert (schema.primary_keys, schema.partition_keys) == (("id", "day"), ("day",))
    assert schema.options == {"bucket": "1"}


def test_a_missing_bucket_means_one_in_old_tables_and_dynamic_in_new_ones() -> None:
    schema = new_schema(COLUMNS)
    assert schema.num_buckets == -1
    old = {k: v for k, v in json.loads(schema.to_json()).items() if k != "version"}
    assert TableSchema.from_json(json.dumps(old).encode()).num_buckets == 1


def test_the_bucket_key_wins_over_the_primary_key() -> None:
    schema = new_schema(COLUMNS, ["id", "name"], options={"bucket": "2", "bucket-key": "name"})
    assert schema.bucket_keys == ("name",)


@pytest.mark.parametrize(
    ("columns", "keys", "partition", "options", "error", "text"),
    [
        ([], [], [], {}, InvalidSchema, "at least one column"),
        ([("a", INT, None), ("a", INT, None)], [], [], {}, InvalidSchema, "'a' occurs twice"),
        ([("Id", INT, None), ("id", INT, None)], [], [], {}, InvalidSchema, "'Id' and 'id' differ by case only"),
        (
            [("l", ArrayType(RowType((DataField(-1, "x", INT), DataField(-1, "X", INT)))), None)],
            [],
            [],
            {},
            InvalidSchema,
            "'l.x' and 'l.X' differ by case only",
        ),
        ([("_KEY_a", INT, None)], [], [], {}, InvalidSchema, "reserved"),
        ([("_row_kind", STRING, None)], [], [], {}, InvalidSchema, "reserved"),
        ([(" ", INT, None)], [], [], {}, InvalidSchema, "blank"),
        (COLUMNS, ["idd"], [], {}, InvalidSchema, "'idd', did you mean 'id'"),
        (COLUMNS, [], ["dey"], {}, InvalidSchema, "'dey', did you mean 'day'"),
        (COLUMNS, ["id", "id"], [], {}, InvalidSchema, "'id' occurs twice"),
        (COLUMNS, ["id"], ["day"], {}, UnsupportedFeature, "does not contain partition column 'day'"),
        (COLUMNS, ["day"], ["day"], {}, InvalidSchema, "partition columns only"),
        (COLUMNS, [], ["id", "name", "day"], {}, InvalidSchema, "not a partition column"),
        ([("a", ArrayType(INT), None)], ["a"], [], {}, InvalidSchema, "cannot be a key"),
        (COLUMNS, ["id"], [], {"primary-key": "id"}, InvalidSchema, "one of the two"),
        (COLUMNS, ["id"], [], {"bucket": "0"}, InvalidOption, "'bucket' = '0'"),
        (COLUMNS, ["id"], [], {"bucket": "four"}, InvalidOption, "'four' is not a whole number"),
        (COLUMNS, ["id"], [], {"bucket": "2", "bucket-key": "namex"}, InvalidOption, "did you mean 'name'"),
        (COLUMNS, ["id"], [], {"bucket": "2", "bucket-key": "name"}, InvalidOption, "columns of the primary key"),
        ([("a", ArrayType(INT), None)], [], [], {"bucket": "2"}, InvalidOption, "this table has none that can"),
        (COLUMNS, [], [], {"bucket-key": "id"}, InvalidOption, "needs 'bucket'"),
    ],
)
def test_a_schema_that_cannot_work_is_refused_with_the_reason(
    columns: Sequence[tuple[str, DataType, str | None]],
    keys: list[str],
    partition: list[str],
    options: dict[str, str],
    error: type[LakelogError],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        new_schema(columns, keys, partition, options)


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidSchema, match="did you mean 'name'"):
        new_schema(COLUMNS).field("namex")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"id": 0}', b'{"id": 0, "fields": [{"id": 1}]}'])
def test_bytes_that_are_no_schema_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        TableSchema.from_json(data)


_PLACES: Sequence[Sequence[str | int]] = [
    ["id"], ["version"], ["fields"], ["fields", 0], ["fields", 0, "id"], ["fields", 0, "name"], ["fields", 0, "type"],
    ["fields", 0, "description"], ["fields", 0, "defaultValue"], ["highestFieldId"], ["partitionKeys"],
    ["partitionKeys", 0], ["primaryKeys"], ["primaryKeys", 0], ["options"], ["options", "bucket"],
    ["options", "lakelog.log-id"], ["comment"], ["timeMillis"],
]  # fmt: skip


@pytest.mark.parametrize("place", _PLACES, ids=str)
@pytest.mark.parametrize("value", [-1, 1.5, True, "x", [], {}, [1], {"a": 1}, [[]]], ids=str)
def test_a_schema_file_with_another_type_anywhere_is_an_error_of_ours_or_read(place: Any, value: Any) -> None:
    schema = new_schema(COLUMNS, ["id", "day"], ["day"], {"bucket": "2", "lakelog.log-id": "l"}, "c")
    file = json.loads(schema.to_json())
    there = file
    for part in place[:-1]:
        there = there[part]
    there[place[-1]] = value
    try:
        found = TableSchema.from_json(json.dumps(file).encode())
    except (Corrupt, UnsupportedFeature):
        return
    assert all(type(name) is str for name in (*found.field_names, *found.primary_keys, *found.partition_keys))
    assert all(type(text) is str for text in found.options.values())
    with contextlib.suppress(LakelogError):
        arrow_schema(found.fields)


def test_a_schema_file_that_is_far_too_large_or_deep_is_corrupt() -> None:
    for data in (b"[" + b"0," * (20 << 20) + b"0]", b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        with pytest.raises(Corrupt):
            TableSchema.from_json(data)
