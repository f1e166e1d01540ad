from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import TableReplaced, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.metadata.identity import Identity
from lakelog.filestore.metadata.schemas import can_read_as, rows_as
from lakelog.filestore.store import FileStore
from lakelog.paimon.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn, SchemaChange, apply_changes
from lakelog.paimon.types.types import BIGINT, STRING, parse_type


def altered(store: FileStore, *changes: SchemaChange) -> FileStore:
    schema = apply_changes(store.schema, changes, True, 0)
    store.io.write(f"{store.table_path}/schema/schema-{schema.id}", schema.to_json())
    return replace(store, schema=schema)


def test_a_store_finds_the_newest_schema(make_table: Any) -> None:
    store = make_table().store
    assert store.with_newest_schema() is store
    newest = altered(altered(store, AddColumn(("x",), STRING)), AddColumn(("y",), STRING))
    assert store.schemas.newest_id() == 2
    assert store.with_newest_schema().schema == newest.schema


def test_a_renumbered_file_keeps_the_columns_of_its_own_schema(make_table: Any) -> None:
    table = make_table()
    newer = replace(table, store=altered(table.store, AddColumn(("x",), STRING)))
    (files,) = newer.staged((0, 1, "a", 1.0, "kept"))
    (file,) = files.new_files
    shifted = table.store.shift_sequences(files.partition, files.bucket, file, 100)
    assert (shifted.schema_id, shifted.min_sequence_number) == (1, file.min_sequence_number + 100)
    newer.store.commit(CommitRequest("u", 1, "APPEND", (replace(files, new_files=(shifted,)),)))
    assert newer.read() == [{"id": 1, "name": "a", "amount": 1.0, "x": "kept"}]


@pytest.mark.parametrize("commits", [0, 1])
def test_a_commit_to_a_dropped_table_leaves_no_files(make_table: Any, commits: int) -> None:
    table = make_table()
    for number in range(commits):
        table.store.commit(CommitRequest("u", number, "APPEND", table.staged((number, 1, "a", 1.0))))
    store = replace(table.store, identity=Identity(table.store.io, table.store.paths, "db.t"))
    files, held = table.staged((9, 1, "a", 1.0)), store.io.list("/t/manifest")
    store.io.delete_dir("/t/schema")
    with pytest.raises(TableReplaced, match=r"table db\.t is no longer in '/t'"):
        store.commit(CommitRequest("u", 9, "APPEND", files))
    assert store.snapshots.ids() == [1][:commits]
    assert store.io.list("/t/manifest") == held


def test_rows_of_one_schema_become_rows_of_another(make_table: Any) -> None:
    store = make_table(columns=(("id", "INT NOT NULL"), ("a", "INT"), ("b", "STRING"))).store
    new = altered(store, RenameColumn(("a",), "n"), ChangeType(("n",), BIGINT), DropColumn(("b",)))
    new = altered(new, AddColumn(("b",), STRING))
    rows = pa.table({"id": pa.array([1], pa.int32()), "a": pa.array([5], pa.int32()), "b": ["x"], "_order": [7]})
    made = rows_as(rows, store.schema, new.schema)
    assert made.to_pylist() == [{"id": 1, "n": 5, "b": None, "_order": 7}]
    assert made.schema.field("n").type == pa.int64()
    assert not made.schema.field("id").nullable


@pytest.mark.parametrize(
    ("old", "new", "possible"),
    [
        ("INT", "BIGINT", True),
        ("INT NOT NULL", "INT", True),
        ("DATE", "TIMESTAMP(3)", True),
        ("BOOLEAN", "DATE", False),
    ],
)
def test_what_the_reader_follows_is_known_before_a_type_changes(
    make_table: Any, old: str, new: str, possible: bool
) -> None:
    assert can_read_as(parse_type(old), parse_type(new)) is possible
    store = make_table(columns=(("id", "INT NOT NULL"), ("a", old))).store
    changed = replace(
        store.schema, fields=(store.schema.fields[0], replace(store.schema.field("a"), type=parse_type(new)))
    )
    column = pa.nulls(1, pa.bool_() if old == "BOOLEAN" else pa.date32() if old == "DATE" else pa.int32())
    rows = pa.table({"id": pa.array([1], pa.int32()), "a": column})
    if possible:
        assert rows_as(rows, store.schema, changed).num_rows == 1
        return
    with pytest.raises(UnsupportedFeature, match="'a' was BOOLEAN and is DATE now"):
        rows_as(rows, store.schema, changed)
