"""Changes of a schema made here and by Paimon's Java core: the same are allowed, the same schema comes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from paimon_java import PaimonJava
from py4j.protocol import Py4JJavaError

from lakelog import Lake
from lakelog.errors import InvalidRequest
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
    apply_changes,
    before,
)
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.evolution import can_change_type
from lakelog.paimon.types.types import BIGINT, INT, STRING, ArrayType, AtomicType, DataField, RowType, parse_type

POINT = {
    "type": "ROW",
    "fields": [{"id": 0, "name": "x", "type": "INT"}, {"id": 1, "name": "y", "type": "INT"}],
}
COLUMNS: dict[str, Any] = {
    "id": "BIGINT NOT NULL",
    "day": "STRING NOT NULL",
    "a": "INT",
    "b": "STRING",
    "must": "INT NOT NULL",
    "p": POINT,
    "points": {"type": "ARRAY", "element": POINT},
    "numbers": {"type": "ARRAY", "element": "INT"},
    "by_name": {"type": "MAP", "key": "STRING", "value": POINT},
}
OPTIONS = {"bucket": "2", "sequence.field": "a", "fields.b.stats-mode": "full"}
NEW_ROW = RowType((DataField(-1, "x", INT), DataField(-1, "y", ArrayType(INT))))


def add(path: tuple[str, ...], kind: Any) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    return AddColumn(path, kind), lambda j: j.change.addColumn(strings(j, path), java_type(j, kind), None, None)


def drop(*path: str) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    return DropColumn(path), lambda j: j.change.dropColumn(strings(j, path))


def rename(path: tuple[str, ...], name: str) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    return RenameColumn(path, name), lambda j: j.change.renameColumn(strings(j, path), name)


def retype(path: tuple[str, ...], kind: Any) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    def java(j: PaimonJava) -> Any:
        return j.change.updateColumnType(strings(j, path), java_type(j, kind), True)

    return ChangeType(path, kind, keep_nullable=True), java


def nullable(path: tuple[str, ...], new: bool) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    return ChangeNullability(path, new), lambda j: j.change.updateColumnNullability(strings(j, path), new)


def option(key: str, value: str) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    return SetOption(key, value), lambda j: j.change.setOption(key, value)


def moved(column: str, name: str, position: Any) -> tuple[SchemaChange, Callable[[PaimonJava], Any]]:
    def java(j: PaimonJava) -> Any:
        move = j.change.Move
        made = getattr(move, name)(column, position.other) if position.other else getattr(move, name)(column)
        return j.change.updateColumnPosition(made)

    return ChangePosition((column,), position), java


CASES: dict[str, list[tuple[SchemaChange, Callable[[PaimonJava], Any]]]] = {
    "add": [add(("c",), INT), add(("d",), NEW_ROW), add(("e",), STRING)],
    "add not null": [add(("c",), parse_type("INT NOT NULL"))],
    "add what is there": [add(("a",), INT)],
    "add into a row": [add(("p", "z"), NEW_ROW)],
    "add into an array": [add(("points", "element", "z"), INT)],
    "add into a map": [add(("by_name", "value", "z"), INT), add(("c",), INT)],
    "drop": [drop("b")],
    "drop of a part": [drop("p", "x")],
    "drop of the last part": [drop("p", "x"), drop("p", "y")],
    "drop and add": [drop("must"), add(("must",), STRING)],
    "drop of a key": [drop("id")],
    "drop of a partition": [drop("day")],
    "drop of the sequence field": [drop("a")],
    "rename": [rename(("must",), "m")],
    "rename of a key": [rename(("id",), "number")],
    "rename of a partition": [rename(("day",), "d")],
    "rename of the sequence field": [rename(("a",), "version")],
    "rename to what is there": [rename(("a",), "b")],
    "rename of a part": [rename(("points", "element", "x"), "left")],
    "wider": [retype(("must",), BIGINT)],
    "narrower": [retype(("must",), AtomicType("SMALLINT"))],
    "no such cast": [retype(("must",), AtomicType("DATE"))],
    "type of a key": [retype(("id",), STRING)],
    "type of a partition": [retype(("day",), INT)],
    "type of a part": [retype(("p", "x"), BIGINT)],
    "type of an element": [retype(("numbers", "element"), BIGINT)],
    "nullable": [nullable(("must",), True)],
    "not null": [nullable(("a",), False)],
    "not null with the promise": [option("alter-column-null-to-not-null.disabled", "false")],
    "nullable key": [nullable(("id",), True)],
    "first": [moved("b", "first", FIRST)],
    "last": [moved("id", "last", LAST)],
    "after": [moved("id", "after", after("b")), moved("must", "after", after("id"))],
    "before": [moved("by_name", "before", before("a")), moved("id", "before", before("p"))],
    "after itself": [moved("a", "after", after("a"))],
    "comments": [
        (ChangeComment(("b",), "hello"), lambda j: j.change.updateColumnComment(strings(j, ("b",)), "hello")),
        (ChangeTableComment("table"), lambda j: j.change.updateComment("table")),
    ],
    "default": [
        (ChangeDefault(("must",), "7"), lambda j: j.change.updateColumnDefaultValue(strings(j, ("must",)), "7"))
    ],
    "set and reset": [
        option("num-levels", "4"),
        (RemoveOption("sequence.field"), lambda j: j.change.removeOption("sequence.field")),
    ],
    "merge engine": [option("merge-engine", "partial-update")],
    "buckets": [option("bucket", "4")],
    "no buckets": [option("bucket", "-1")],
    "deletion vectors": [option("deletion-vectors.enabled", "true")],
}


def strings(java: PaimonJava, path: tuple[str, ...]) -> Any:
    array = java.gateway.new_array(java.gateway.jvm.java.lang.String, len(path))
    for at, name in enumerate(path):
        array[at] = name
    return array


def java_type(java: PaimonJava, kind: Any) -> Any:
    numbered = kind
    if isinstance(kind, RowType):
        numbered = RowType(tuple(DataField(i, f.name, f.type) for i, f in enumerate(kind.fields)))
    return java.type_of(numbered.to_json())


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_change_gives_the_schema_that_paimon_makes(java: PaimonJava, tmp_path: Path, case: str) -> None:
    java.create(str(tmp_path), "t", COLUMNS, ["day", "id"], ["day"], OPTIONS)
    root = tmp_path / "g.db" / "t"
    start = TableSchema.from_json((root / "schema" / "schema-0").read_bytes())
    java.write(str(tmp_path), "g", "t", [(1, "d", 2, "b", 3, None, None, None, None)])
    changes = [change for change, _ in CASES[case]]
    try:
        java.alter(str(tmp_path), "t", *(make(java) for _, make in CASES[case]))
    except Py4JJavaError as refused:
        with pytest.raises(InvalidRequest):
            apply_changes(start, changes, True, 0)
        assert refused is not None
        return
    theirs = json.loads((root / "schema" / "schema-1").read_bytes())
    ours = json.loads(apply_changes(start, changes, True, theirs["timeMillis"]).to_json())
    assert ours == theirs


KINDS = [
    "CHAR(3)", "STRING", "VARCHAR(5)", "BOOLEAN", "BINARY(3)", "BYTES", "DECIMAL(10, 2)", "TINYINT", "SMALLINT", "INT",
    "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "VARIANT",
    {"type": "ARRAY", "element": "INT"}, {"type": "MAP", "key": "STRING", "value": "INT"}, POINT,
    {"type": "MULTISET", "element": "INT"},
]  # fmt: skip


def test_types_change_with_the_option_where_paimon_lets_them(java: PaimonJava) -> None:
    casts, executors = java.paimon.types.DataTypeCasts, java.paimon.casting.CastExecutors
    theirs = {str(k): java.type_of(k) for k in KINDS}
    differ = []
    for old in KINDS:
        for new in KINDS:
            if old == new:
                continue
            one, other = theirs[str(old)], theirs[str(new)]
            allowed = casts.supportsCast(one, other, True) and executors.resolve(one, other) is not None
            if allowed != can_change_type(parse_type(old), parse_type(new), explicit=True):
                differ.append((old, new, allowed))
    assert differ == []


@pytest.mark.parametrize("keyed", ["", ", primary key (id)"])
def test_a_table_altered_here_is_read_and_written_on_by_paimon(java: PaimonJava, lake: Lake, keyed: str) -> None:
    lake.sql(f"create table db.t (id int, a int, b string{keyed}) using lakelog")
    table = lake.table("db.t")
    table.write(pa.table({"id": [1, 2], "a": [10, 20], "b": ["x", "y"]}))
    lake.sql("alter table db.t add column c string after id; alter table db.t rename column a to n")
    lake.sql("alter table db.t alter column n type bigint; alter table db.t drop column b")
    lake.sql("alter table db.t add column b int; alter table db.t alter column b set default 5")
    table = lake.table("db.t")
    table.write(pa.table({"id": [3], "n": [2**40], "c": ["new"]}))
    wanted = [(1, None, 10, None), (2, None, 20, None), (3, "new", 2**40, 5)]
    assert sorted(java.rows(lake.warehouse, "db", "t")) == wanted
    assert sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist()) == wanted
    java.alter(lake.warehouse, "t", java.change.renameColumn("n", "m"), database="db")
    again = lake.table("db.t")
    again.alter(DropColumn(("c",)))
    assert sorted(tuple(r.values()) for r in again.scan().to_arrow().to_pylist()) == [
        (1, 10, None), (2, 20, None), (3, 2**40, 5),
    ]  # fmt: skip
