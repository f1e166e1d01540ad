from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from lakelog.errors import InvalidRequest, InvalidSchema, UnsupportedFeature
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
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    after,
    apply_changes,
    before,
)
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import (
    BIGINT,
    INT,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    parse_type,
)

POINT = RowType((DataField(-1, "x", INT), DataField(-1, "y", INT)))
TABLE = new_schema(
    [
        ("id", BIGINT, None),
        ("day", AtomicType("DATE"), None),
        ("a", INT, "first"),
        ("b", STRING, None),
        ("p", POINT, None),
        ("points", ArrayType(POINT), None),
        ("by_name", MapType(STRING, POINT), None),
    ],
    ["id", "day"],
    ["day"],
    {"bucket": "2"},
)
"""Ids: columns 0 to 6, p.x 7, p.y 8, points 9 and 10, by_name 11 and 12."""


CASTING = replace(TABLE, options={**TABLE.options, "disable-explicit-type-casting": "false"})
"""The same table, which takes changes to types that may not fit."""


def changed(*changes: SchemaChange, schema: TableSchema = TABLE) -> TableSchema:
    return apply_changes(schema, changes, has_snapshots=True, time_millis=77)


def names(schema: TableSchema) -> str:
    return " ".join(schema.field_names)


def row(schema: TableSchema, *path: str) -> RowType:
    kind = schema.field(path[0]).type
    for _ in path[1:]:
        kind = kind.element if isinstance(kind, ArrayType) else kind.value if isinstance(kind, MapType) else kind
    assert isinstance(kind, RowType)
    return kind


def test_all_changes_of_a_call_are_one_new_schema() -> None:
    made = changed(AddColumn(("c",), INT), DropColumn(("a",)), ChangeTableComment("hello"))
    assert (made.id, made.time_millis, made.comment) == (1, 77, "hello")
    assert names(made) == "id day b p points by_name c"
    assert TABLE.id == 0
    assert TableSchema.from_json(made.to_json()) == made


def test_changes_that_change_nothing_make_no_schema() -> None:
    assert changed(ChangeComment(("a",), "first"), SetOption("bucket", "2")) is TABLE
    with pytest.raises(InvalidRequest, match="name at least one"):
        changed()


def test_a_new_column_gets_an_id_above_all_that_ever_were_and_its_parts_the_next_ones() -> None:
    made = changed(AddColumn(("c",), POINT, "where"), AddColumn(("d",), INT))
    assert made.field("c") == DataField(13, "c", RowType((DataField(14, "x", INT), DataField(15, "y", INT))), "where")
    assert made.field("d").id == made.highest_field_id == 16


def test_a_dropped_name_comes_back_with_a_new_id() -> None:
    made = changed(DropColumn(("a",)), AddColumn(("a",), INT))
    assert made.field("a") == DataField(13, "a", INT)


@pytest.mark.parametrize(
    ("position", "order"),
    [
        (None, "id day a b p points by_name c"),
        (LAST, "id day a b p points by_name c"),
        (FIRST, "c id day a b p points by_name"),
        (after("a"), "id day a c b p points by_name"),
        (before("a"), "id day c a b p points by_name"),
        (after("by_name"), "id day a b p points by_name c"),
    ],
)
def test_a_new_column_has_the_requested_position(position: Position | None, order: str) -> None:
    assert names(changed(AddColumn(("c",), INT, None, position))) == order


def test_a_new_column_is_before_the_partition_columns_if_the_option_is_set() -> None:
    schema = replace(TABLE, options={**TABLE.options, "add-column-before-partition": "true"})
    assert names(changed(AddColumn(("c",), INT), schema=schema)) == "id c day a b p points by_name"
    assert names(changed(AddColumn(("c",), INT, None, LAST), schema=schema)).endswith("by_name c")
    assert row(changed(AddColumn(("p", "z"), INT), schema=schema), "p").fields[2].name == "z"


@pytest.mark.parametrize("path", [("p",), ("points", "element"), ("by_name", "value")])
def test_a_part_of_a_row_is_added_dropped_renamed_and_moved(path: tuple[str, ...]) -> None:
    made = changed(
        AddColumn((*path, "z"), STRING, None, after("x")),
        RenameColumn((*path, "x"), "w"),
        DropColumn((*path, "y")),
        ChangePosition((*path, "z"), FIRST),
    )
    fields = row(made, *path).fields
    assert [f.name for f in fields] == ["z", "w"]
    assert fields[0].id == made.highest_field_id == 13
    assert fields[1] == replace(row(TABLE, *path).fields[0], name="w")


def test_the_element_of_an_array_and_the_value_of_a_map_change_their_type() -> None:
    schema = new_schema([("n", ArrayType(INT), None), ("m", MapType(STRING, ArrayType(INT)), None)])
    made = changed(ChangeType(("n", "element"), BIGINT), ChangeType(("m", "value", "element"), BIGINT), schema=schema)
    assert made.field("n").type == ArrayType(BIGINT)
    assert made.field("m").type == MapType(STRING, ArrayType(BIGINT))


def test_a_renamed_primary_key_keeps_its_id() -> None:
    made = changed(RenameColumn(("id",), "number"))
    assert made.primary_keys == ("number", "day")
    assert made.field("number") == replace(TABLE.field("id"), name="number")


def test_a_type_changes_and_keeps_id_comment_and_nullability() -> None:
    assert changed(ChangeType(("a",), BIGINT, keep_nullable=True)).field("a") == DataField(2, "a", BIGINT, "first")
    schema = new_schema([("a", parse_type("INT NOT NULL"), None), ("b", INT, None)])
    assert changed(ChangeType(("a",), BIGINT, keep_nullable=True), schema=schema).field("a").type.nullable is False
    assert changed(ChangeType(("a",), BIGINT), schema=schema).field("a").type.nullable is True


def test_a_key_column_may_be_named_with_the_type_that_it_has() -> None:
    assert changed(ChangeType(("id",), BIGINT), ChangeComment(("id",), "n")).field("id").type == TABLE.field("id").type


def test_not_null_is_taken_back_and_set_only_with_the_promise() -> None:
    promised = {**TABLE.options, "alter-column-null-to-not-null.disabled": "false"}
    made = changed(ChangeNullability(("a",), nullable=False), schema=replace(TABLE, options=promised))
    assert made.field("a").type == parse_type("INT NOT NULL")
    assert changed(ChangeNullability(("a",), nullable=True), schema=made).field("a").type == INT


@pytest.mark.parametrize(
    ("position", "order"),
    [
        (FIRST, "b id day a p points by_name"),
        (LAST, "id day a p points by_name b"),
        (after("id"), "id b day a p points by_name"),
        (before("by_name"), "id day a p points b by_name"),
        (before("a"), "id day b a p points by_name"),
    ],
)
def test_a_column_moves(position: Position, order: str) -> None:
    made = changed(ChangePosition(("b",), position))
    assert names(made) == order
    assert set(made.fields) == set(TABLE.fields)


def test_comment_and_default_change() -> None:
    made = changed(ChangeComment(("a",), None), ChangeComment(("p", "x"), "left"), ChangeDefault(("a",), "5"))
    assert made.field("a") == DataField(2, "a", INT, None, "5")
    assert row(made, "p").fields[0].description == "left"
    assert changed(ChangeDefault(("a",), None), schema=made).field("a").default_value is None


def test_a_default_stays_a_value_of_the_new_type() -> None:
    schema = changed(ChangeDefault(("b",), "five"), schema=CASTING)
    assert changed(ChangeType(("b",), parse_type("VARCHAR(9)")), schema=schema).field("b").default_value == "five"
    with pytest.raises(InvalidSchema, match="'five' cannot be the default of column 'b' of type INT"):
        changed(ChangeType(("b",), INT), schema=schema)


def test_a_drop_of_a_missing_name_succeeds_with_if_exists() -> None:
    assert changed(DropColumn(("nothing",), if_exists=True), DropColumn(("p", "q"), if_exists=True)) is TABLE
    assert names(changed(DropColumn(("a",), if_exists=True))) == "id day b p points by_name"


REFUSED: list[tuple[SchemaChange, str]] = [
    (AddColumn(("c",), parse_type("INT NOT NULL")), "'c' cannot be added as NOT NULL"),
    (AddColumn(("a",), INT), "column 'a' exists"),
    (AddColumn(("A",), INT), "column 'A' exists as 'a', in another case"),
    (RenameColumn(("a",), "B"), "column 'B' exists as 'b', in another case"),
    (AddColumn(("p", "X"), INT), r"column 'p\.X' exists as 'x', in another case"),
    (AddColumn(("p", "x"), INT), r"column 'p\.x' exists"),
    (AddColumn(("_VALUE_KIND",), INT), "'_VALUE_KIND' is reserved"),
    (AddColumn(("c",), INT, None, after("dya")), "there is no column 'dya', did you mean 'day'"),
    (AddColumn(("q", "x"), INT), "there is no column 'q'"),
    (AddColumn(("a", "x"), INT), r"there is no column 'a\.x': 'a' is INT and has no fields"),
    (AddColumn(("points", "z"), INT), r"there is no column 'points\.z': write 'points\.element'"),
    (AddColumn(("by_name", "key", "z"), INT), r"write 'by_name\.value'"),
    (AddColumn(("points", "element"), INT), r"column 'points\.element' exists"),
    (DropColumn(("id",)), "'id' cannot be dropped: it is a primary key column"),
    (DropColumn(("day",)), "'day' cannot be dropped: it is a partition column"),
    (DropColumn(("nothing",)), "there is no column 'nothing'"),
    (DropColumn(("points", "element")), r"'points\.element' cannot be added, dropped or renamed"),
    (RenameColumn(("day",), "d"), "'day' cannot be renamed: it is a partition column"),
    (RenameColumn(("a",), "b"), "column 'b' exists"),
    (RenameColumn(("a",), "_LEVEL"), "'_LEVEL' is reserved"),
    (RenameColumn(("p", "z"), "w"), r"there is no column 'p\.z'"),
    (RenameColumn(("points", "element"), "e"), r"'points\.element' cannot be added, dropped or renamed"),
    (ChangeType(("id",), STRING), "'id' cannot be given another type: it is a primary key column"),
    (ChangeType(("day",), STRING), "'day' cannot be given another type: it is a partition column"),
    (ChangeType(("a",), AtomicType("DATE")), "'a' of type INT cannot become DATE.*it can become BIGINT, DECIMAL"),
    (ChangeType(("p",), INT), "'p' of type ROW cannot become INT.*add a new column"),
    (ChangeType(("a",), parse_type("BIGINT NOT NULL")), "'a' cannot become NOT NULL.*'false' first"),
    (ChangeNullability(("a",), nullable=False), "'a' cannot become NOT NULL.*'false' first"),
    (ChangeNullability(("id",), nullable=True), "'id' cannot be made nullable: it is a primary key column"),
    (ChangeDefault(("a",), "five"), "'five' cannot be the default of column 'a' of type INT"),
    (ChangePosition(("a",), after("a")), "'a' cannot be placed before or after itself"),
    (ChangePosition(("a",), before("nothing")), "there is no column 'nothing'"),
    (ChangeComment(("aa",), "x"), "there is no column 'aa', did you mean 'a'"),
]


@pytest.mark.parametrize(
    ("change", "message"), REFUSED, ids=lambda v: type(v).__name__ if not isinstance(v, str) else v
)
def test_what_the_format_does_not_allow_names_the_column_and_what_to_do(change: SchemaChange, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        changed(change)


def test_the_last_column_stays() -> None:
    schema = new_schema([("a", INT, None), ("b", POINT, None)])
    with pytest.raises(InvalidSchema, match="'a' cannot be dropped: it is the only one"):
        changed(DropColumn(("b",)), DropColumn(("a",)), schema=schema)
    with pytest.raises(InvalidSchema, match=r"'b\.y' cannot be dropped: it is the only one"):
        changed(DropColumn(("b", "x")), DropColumn(("b", "y")), schema=schema)


@pytest.mark.parametrize(("path", "kind"), [(("b",), INT), (("p", "x"), parse_type("SMALLINT"))])
def test_a_type_that_does_not_have_all_values_needs_the_option(path: tuple[str, ...], kind: DataType) -> None:
    with pytest.raises(InvalidSchema, match="value does not fit; set 'disable-explicit-type-casting' = 'false'"):
        changed(ChangeType(path, kind))
    assert changed(ChangeType(path, kind), schema=CASTING) != CASTING


def test_the_columns_of_the_bucket_key_keep_their_type() -> None:
    schema = new_schema([("a", INT, None), ("b", INT, None)], options={"bucket": "4", "bucket-key": "a"})
    with pytest.raises(InvalidSchema, match="'a' cannot be given another type: it is a column of 'bucket-key'"):
        changed(ChangeType(("a",), BIGINT), schema=schema)


def test_a_blob_is_not_renamed() -> None:
    schema = new_schema([("a", INT, None), ("b", AtomicType("BLOB"), None)])
    with pytest.raises(UnsupportedFeature, match="'b' cannot be renamed: it is a BLOB"):
        changed(RenameColumn(("b",), "c"), schema=schema)


@pytest.mark.parametrize(
    ("version", "options"), [(1, {"bucket": "1", "file.format": "orc"}), (2, {"file.format": "orc"}), (3, {})]
)
def test_defaults_of_an_older_schema_are_explicit_in_the_new_one(version: int, options: dict[str, str]) -> None:
    columns = (DataField(0, "a", parse_type("INT NOT NULL")), DataField(1, "b", INT))
    old = TableSchema(4, columns, 1, primary_keys=("a",), version=version)
    made = changed(DropColumn(("b",)), schema=old)
    assert (made.id, made.version, made.options) == (5, 3, options)


@pytest.mark.parametrize("change", [change for change, _ in REFUSED[:3]])
def test_changes_travel(change: SchemaChange) -> None:
    assert pickle.loads(pickle.dumps(change)) == change


def test_a_refused_change_leaves_the_schema_as_it_was() -> None:
    text = TABLE.to_json()
    with pytest.raises(InvalidSchema):
        changed(DropColumn(("a",)), DropColumn(("id",)))
    assert TABLE.to_json() == text
