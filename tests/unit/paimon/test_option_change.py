from __future__ import annotations

from collections.abc import Mapping

import pytest

from lakelog.errors import InvalidOption, InvalidSchema
from lakelog.options.log import LOG_OPTIONS
from lakelog.paimon.schema.changes import DropColumn, RemoveOption, RenameColumn, SchemaChange, SetOption, apply_changes
from lakelog.paimon.schema.option_changes import IMMUTABLE, options_naming, renamed_in_options
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import INT, DataField, RowType


def table(options: Mapping[str, str] | None = None, keyed: bool = True) -> TableSchema:
    columns = [(name, INT, None) for name in ("id", "a", "b", "c")]
    return new_schema(columns, ["id"] if keyed else [], [], {"bucket": "2", **(options or {})})


def changed(schema: TableSchema, *changes: SchemaChange, has_snapshots: bool = True) -> dict[str, str]:
    return dict(apply_changes(schema, changes, has_snapshots, 0).options)


def test_options_are_set_and_removed() -> None:
    schema = table({"write-only": "true"})
    assert changed(schema, SetOption("num-levels", "4"), RemoveOption("write-only")) == {
        "bucket": "2",
        "num-levels": "4",
    }


@pytest.mark.parametrize("key", sorted(IMMUTABLE - {"type", "primary-key", "partition"}))
def test_an_option_that_files_depend_on_is_fixed_by_the_first_snapshot(key: str) -> None:
    schema = table()
    with pytest.raises(InvalidOption, match=f"'{key}' cannot be set to 'id': files of the table depend on it"):
        changed(schema, SetOption(key, "id"))
    early = changed(schema, SetOption(key, "id"), has_snapshots=False)
    assert early[key] == "id"
    with pytest.raises(InvalidOption, match=f"'{key}' cannot be reset"):
        changed(table({key: "id"}), RemoveOption(key))


def test_the_immutable_options_are_those_of_the_format_and_of_the_log() -> None:
    of_log = {option.key for option in LOG_OPTIONS.options if option.immutable}  # they go with ``add_log`` alone
    assert {"merge-engine", "bucket-key", "rowkind.field", "sequence.snapshot-ordering"} <= IMMUTABLE
    assert {"log-store.type", "log-store.topic", "log-store.data-format"} <= of_log
    assert not {"bucket", "file.format", "sequence.field", "log-store.retention"} & IMMUTABLE


@pytest.mark.parametrize("key", ["type", "primary-key", "partition"])
def test_keys_are_fixed_when_a_table_is_made(key: str) -> None:
    with pytest.raises(InvalidOption, match="it is fixed"):
        changed(table(), SetOption(key, "a"), has_snapshots=False)


def test_repeating_the_keys_is_no_change() -> None:
    schema = table()
    assert apply_changes(schema, [SetOption("primary-key", "id")], True, 0) is schema


@pytest.mark.parametrize(
    ("old", "new", "allowed"), [("2", "5", True), ("2", "-1", False), ("-1", "4", False), ("2", "0", False)]
)
def test_buckets_change_between_fixed_numbers(old: str, new: str, allowed: bool) -> None:
    schema = table({"bucket": old})
    if allowed:
        assert changed(schema, SetOption("bucket", new))["bucket"] == new
        return
    with pytest.raises(InvalidOption, match="only a fixed number can change to another.*INSERT OVERWRITE"):
        changed(schema, SetOption("bucket", new))


def test_buckets_change_freely_before_the_first_snapshot_and_are_never_reset_after_it() -> None:
    assert changed(table({"bucket": "-1"}), SetOption("bucket", "4"), has_snapshots=False)["bucket"] == "4"
    with pytest.raises(InvalidOption, match="'bucket' cannot be reset: "):
        changed(table(), RemoveOption("bucket"))


def test_deletion_vectors_change_only_when_the_table_says_so() -> None:
    with pytest.raises(InvalidOption, match=r"compact the table fully.*'deletion-vectors\.modifiable' = 'true' first"):
        changed(table(), SetOption("deletion-vectors.enabled", "true"))
    with pytest.raises(InvalidOption, match="'deletion-vectors.modifiable'"):
        changed(table({"deletion-vectors.enabled": "true"}), RemoveOption("deletion-vectors.enabled"))
    assert changed(table(), SetOption("deletion-vectors.enabled", "false"))["deletion-vectors.enabled"] == "false"
    free = table({"deletion-vectors.modifiable": "true"})
    assert changed(free, SetOption("deletion-vectors.enabled", "true"))["deletion-vectors.enabled"] == "true"


@pytest.mark.parametrize("key", ["ignore-delete", "ignore-update-before"])
def test_dropping_rows_is_a_one_way_flag(key: str) -> None:
    assert changed(table(), SetOption(key, "true"))[key] == "true"
    for back in (SetOption(key, "false"), RemoveOption(key)):
        with pytest.raises(InvalidOption, match="rows were dropped while it was true"):
            changed(table({key: "true"}), back)


NAMING = {
    "sequence.field": "a, b",
    "rowkind.field": "c",
    "fields.a.aggregate-function": "sum",
    "fields.b.ignore-retract": "true",
    "fields.a,b.sequence-group": "c,a",
    "fields.default-aggregate-function": "last_value",
    "file.format": "parquet",
}


def test_a_rename_rewrites_every_option_that_names_the_column() -> None:
    assert changed(table(NAMING), RenameColumn(("a",), "z")) == {
        "bucket": "2",
        "sequence.field": "z,b",
        "rowkind.field": "c",
        "fields.z.aggregate-function": "sum",
        "fields.b.ignore-retract": "true",
        "fields.z,b.sequence-group": "c,z",
        "fields.default-aggregate-function": "last_value",
        "file.format": "parquet",
    }


def test_a_rename_rewrites_the_bucket_key() -> None:
    schema = table({"bucket-key": "a,b"}, keyed=False)
    assert changed(schema, RenameColumn(("b",), "z"))["bucket-key"] == "a,z"


def test_a_rename_inside_a_row_rewrites_its_nested_key_only() -> None:
    options = {"fields.orders.nested-key": "id,day", "fields.day.aggregate-function": "sum"}
    assert renamed_in_options(options, ("orders", "element", "day"), "d") == {
        "fields.orders.nested-key": "id,d",
        "fields.day.aggregate-function": "sum",
    }


@pytest.mark.parametrize(
    ("column", "key"),
    [("a", "sequence.field"), ("c", "rowkind.field"), ("b", "sequence.field")],
)
def test_a_column_that_an_option_names_is_not_dropped(column: str, key: str) -> None:
    with pytest.raises(InvalidSchema, match=f"'{column}' cannot be dropped: option '{key}'.*change or reset"):
        changed(table(NAMING), DropColumn((column,)))
    assert list(options_naming(NAMING, "a")) == [
        "sequence.field", "fields.a.aggregate-function", "fields.a,b.sequence-group",
    ]  # fmt: skip
    assert list(options_naming(NAMING, "default-aggregate-function")) == []


def test_an_option_can_be_reset_and_the_column_dropped_in_one_go() -> None:
    schema = table({"sequence.field": "a"})
    assert changed(schema, RemoveOption("sequence.field"), DropColumn(("a",))) == {"bucket": "2"}


def test_a_nested_field_named_like_a_column_in_an_option_is_dropped() -> None:
    point = RowType((DataField(-1, "a", INT), DataField(-1, "z", INT)))
    schema = new_schema([("id", INT, None), ("a", INT, None), ("p", point, None)], options={"sequence.field": "a"})
    assert changed(schema, DropColumn(("p", "a"))) == {"sequence.field": "a"}


def test_the_options_of_an_index_follow_their_column() -> None:
    key = "file-index.bloom-filter."
    schema = table({f"{key}columns": "a, b", f"{key}a.items": "500", f"{key}b.fpp": "0.01"})
    renamed = changed(schema, RenameColumn(("a",), "z"))
    assert renamed == {"bucket": "2", f"{key}columns": "z,b", f"{key}z.items": "500", f"{key}b.fpp": "0.01"}
    with pytest.raises(InvalidSchema, match=r"'a' cannot be dropped: option 'file-index\.bloom-filter\.columns'"):
        changed(schema, DropColumn(("a",)))
