"""Tables as Apache Paimon 2 writes them: each is read right, or refused by the name of what is new."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.paimon.schema.schema import TableSchema
from lakelog.paimon.types.types import parse_type

I = 0  # noqa: E741 - a row kind


def with_options(store: FileStore, **options: str) -> FileStore:
    """The same files under a schema with options of another engine."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return FileStore(store.io, "/t", replace(store.schema, options={**store.schema.options, **given}))


def rewritten_snapshot(store: FileStore, id: int, **more: Any) -> None:
    path = store.paths.snapshot(id)
    found = {**json.loads(store.io.read(path)), **more}
    store.io.delete(path)
    store.io.write(path, json.dumps(found).encode())


def test_a_snapshot_with_a_uuid_a_writer_and_an_operation_is_read_and_followed(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    rewritten_snapshot(
        table.store, 1, uuid="6f1d5b0e-2a4c-4bb4-8a35-3c1c6f0b7e11", writerVersion="paimon-2.0.0", operation="WRITE",
        nextRowId=7,
    )  # fmt: skip
    assert table.ids() == [1]
    table.insert((I, 2, "b", 1.0))
    assert table.ids() == [1, 2]
    assert table.store.snapshot(2).next_row_id == 7
    assert "uuid" not in json.loads(table.store.io.read(table.store.paths.snapshot(2)))


@pytest.mark.parametrize("kind", ["snapshot", "schema"])
def test_metadata_of_a_newer_version_is_refused(make_table, kind: str) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    if kind == "snapshot":
        rewritten_snapshot(table.store, 1, version=4)
        parse, data = Snapshot.from_json, table.store.io.read(table.store.paths.snapshot(1))
    else:
        found = {**json.loads(table.store.schema.to_json()), "version": 4}
        parse, data = TableSchema.from_json, json.dumps(found).encode()
    with pytest.raises(UnsupportedFeature, match=f"{kind} of version 4: lakelog reads versions up to 3"):
        parse(data)


@pytest.mark.parametrize("option", ["primary_key__nullable", "sequence__snapshot_ordering", "pk_clustering_override"])
def test_rows_that_are_merged_in_another_way_are_neither_read_nor_written(make_table, option: str) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    name = option.replace("__", ".").replace("_", "-")
    store = with_options(table.store, **{option: "true"})
    for work in (
        store.plan,
        lambda: store.bucket_writer(b"\x00" * 12, 0),
        lambda: store.commit(CommitRequest("u", 9, "APPEND", allow_empty=True)),
        lambda: store.run_compaction(b"\x00" * 12, 0, True),
    ):
        with pytest.raises(UnsupportedFeature, match=f"option '{name}' = 'true' is not supported"):
            work()
    plain = with_options(table.store, **{option: "false"})
    assert plain.read_table(plain.plan(), ["id"]).to_pylist() == [{"id": 1}]


def test_rows_with_row_ids_are_read_from_new_and_from_compacted_files(make_table) -> None:
    """New files have the ids in their metadata, compacted ones in columns of the file."""
    table = make_table(primary_keys=())
    (first,) = table.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.commit_files(table.rewritten(first, lambda rows: rows, first_row_id=0))
    (second,) = table.staged((I, 3, "c", 3.0))

    def with_ids(rows: pa.Table) -> pa.Table:
        return rows.append_column("_ROW_ID", pa.array([9])).append_column("_SEQUENCE_NUMBER", pa.array([4]))

    table.commit_files(table.rewritten(second, with_ids))
    store = with_options(table.store, row_tracking__enabled="true")
    assert store.read_table(store.plan(), ["id", "name"]).to_pylist() == [
        {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"},
    ]  # fmt: skip
    with pytest.raises(UnsupportedFeature, match=r"'row-tracking\.enabled' = 'true' is not supported for writing"):
        store.bucket_writer(b"\x00" * 12, 0)


def test_files_that_replace_columns_of_the_same_rows_are_refused_whatever_is_read(make_table) -> None:
    table = make_table(primary_keys=())
    (first,) = table.staged((I, 1, "a", 1.0), (I, 2, "b", 2.0))
    table.commit_files(table.rewritten(first, lambda rows: rows, first_row_id=0))
    (second,) = table.staged((I, 10, "a", 1.0), (I, 20, "b", 2.0))
    table.commit_files(table.rewritten(second, lambda rows: rows, first_row_id=0, write_cols=("id", "name", "amount")))
    store = with_options(table.store, row_tracking__enabled="true", data_evolution__enabled="true")
    for filter in (None, Compare("id", "=", 1), Compare("id", "=", 20)):
        with pytest.raises(UnsupportedFeature, match="hold the same rows"):
            store.plan(filter=filter)


def test_a_table_whose_rows_are_each_in_one_file_is_read_with_data_evolution(make_table) -> None:
    table = make_table(primary_keys=())
    for at in (0, 1):
        (files,) = table.staged((I, at, "a", 1.0))
        table.commit_files(table.rewritten(files, lambda rows: rows, first_row_id=at))
    store = with_options(table.store, row_tracking__enabled="true", data_evolution__enabled="true")
    assert store.read_table(store.plan(), ["id"]).column(0).to_pylist() == [0, 1]


@pytest.mark.parametrize("kind", ["GEOMETRY", "GEOGRAPHY"])
def test_a_type_of_a_later_format_is_named(kind: str) -> None:
    with pytest.raises(UnsupportedFeature, match=f"unknown column type '{kind}'"):
        parse_type(kind)
