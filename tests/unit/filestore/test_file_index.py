"""File indexes of tables: where they are kept, which files they spare, and that they go with their files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidSchema, UnsupportedFeature
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.skipping.predicate import And, Compare, In
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.schema.schema import TableSchema

PLACE = (b"\x00" * 12, 0)
KEY = "file-index.bloom-filter."


class Counting(MemoryFileIO):
    """Remembers what was opened."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.opened: list[str] = []

    def open_input(self, path: str) -> pa.NativeFile:
        self.opened.append(path.rpartition("/")[2])
        return super().open_input(path)


def indexed(make_table: Any, **options: str) -> Any:
    table = make_table()
    old = table.store.schema
    given = {**old.options, f"{KEY}columns": "id,name", f"{KEY}name.fpp": "0.0001", f"{KEY}id.items": "1000", **options}
    schema = TableSchema(old.id, old.fields, old.highest_field_id, old.partition_keys, old.primary_keys, given)
    io = Counting(new_uuid())
    io.write(f"{table.store.table_path}/schema/schema-0", schema.to_json())
    return type(table)(FileStore(io, table.store.table_path, schema))


def opened(table: Any, filter: Any) -> tuple[list[int], list[str]]:
    """(ids found, kinds of files opened) of a read."""
    table.store.io.inner.opened.clear()
    found = table.ids(filter)
    return found, sorted({name.rpartition(".")[2] for name in table.store.io.inner.opened if name.startswith("data-")})


@pytest.mark.parametrize("threshold", ["500 b", "10 mb"])
def test_a_file_whose_index_excludes_a_value_is_not_opened(make_table, threshold: str) -> None:
    table = indexed(make_table, **{"file-index.in-manifest-threshold": threshold})
    table.insert(*((0, i, f"n{i:02d}", 0.5) for i in range(0, 50, 2)))
    (split,) = table.store.plan()
    (file,) = split.files
    beside = threshold == "500 b"
    assert file.extra_files == ((f"{file.file_name}.index",) if beside else ())
    assert (file.embedded_file_index is None) == beside
    ways = ["index"] if beside else []
    assert opened(table, Compare("name", "=", "n04")) == ([4], sorted([*ways, "parquet"]))
    assert opened(table, Compare("name", "=", "n05")) == ([], ways)
    assert opened(table, In("name", ("n05", "n07", None))) == ([], ways)
    assert opened(table, In("name", ("n05", "n06"))) == ([6], sorted([*ways, "parquet"]))
    assert opened(table, And(Compare("amount", ">", 0.1), Compare("name", "=", "n05"))) == ([], ways)
    assert opened(table, Compare("name", ">", "n47")) == ([48], ["parquet"])


def test_indexes_of_values_do_not_bring_old_rows_back(make_table) -> None:
    table = indexed(make_table)
    table.insert((0, 1, "old", 0.5), (0, 2, "other", 0.5))
    table.insert((0, 1, "new", 0.5))
    assert table.ids(Compare("name", "=", "old")) == []
    assert table.ids(Compare("name", "=", "new")) == [1]
    assert table.ids(Compare("name", "=", "other")) == [2]


def test_a_key_is_searched_only_in_runs_that_may_have_it(make_table) -> None:
    table = indexed(make_table, **{f"{KEY}id.fpp": "0.000001"})
    table.insert((0, 1, "a", 0.5), (0, 9, "a", 0.5))
    table.insert((0, 2, "b", 0.5), (0, 8, "b", 0.5))
    table.insert((0, 2, "c", 0.5), (0, 7, "c", 0.5))
    table.store.io.inner.opened.clear()
    assert [row["name"] for row in table.read(None, Compare("id", "=", 7))] == ["c"]
    assert len([name for name in table.store.io.inner.opened if name.endswith(".index")]) == 3
    assert len({name for name in table.store.io.inner.opened if name.endswith(".parquet")}) == 1


def test_an_index_is_not_read_when_it_is_switched_off(make_table) -> None:
    table = indexed(make_table, **{"file-index.read.enabled": "false"})
    table.insert((0, 1, "a", 0.5), (0, 3, "c", 0.5))
    assert opened(table, Compare("name", "=", "b")) == ([], ["parquet"])


def test_index_files_go_with_their_data_files_and_not_before(make_table) -> None:
    table = indexed(make_table)
    store, directory = table.store, f"{table.store.table_path}/bucket-0"

    def names() -> set[str]:
        return {status.name for status in store.io.list(directory)}

    table.insert((0, 1, "a", 0.5))
    table.insert((0, 2, "b", 0.5))
    old = names()
    assert len(old) == 4
    store.compact(*PLACE, full=True)
    store.remove_orphans(0)
    assert len(names()) == 6
    store.expire_snapshots(Retention(1, 1, timedelta(0), 10))
    (file,) = (f for split in store.plan() for f in split.files)
    assert names() == {file.file_name, *file.extra_files}
    assert len(names()) == 2
    store.io.write(f"{directory}/{file.file_name[:-9]}9.parquet.index", b"left behind")
    assert store.remove_orphans(0).files
    assert table.ids() == [1, 2]


def test_columns_that_cannot_have_an_index_are_refused_before_anything_is_written(make_table) -> None:
    with pytest.raises(InvalidSchema, match="'nowhere'"):
        indexed(make_table, **{f"{KEY}columns": "nowhere"}).insert((0, 1, "a", 0.5))
    table = make_table(columns=(("id", "INT NOT NULL"), ("flag", "BOOLEAN")))
    table.store.schema.options[f"{KEY}columns"] = "flag"
    with pytest.raises(UnsupportedFeature, match="cannot have a Bloom filter"):
        table.store.bucket_writer(*PLACE)


def test_an_index_that_cannot_be_written_is_refused_before_the_first_write(tmp_path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database db; create table db.t (id int, v decimal(9, 2))")
        for column, error in (("nope", InvalidSchema), ("v", UnsupportedFeature)):
            given = f"tblproperties ('{KEY}columns' = '{column}')"
            with pytest.raises(error, match=r"unknown column|type DECIMAL"):
                lake.sql(f"create table db.other (id int, v decimal(9, 2)) {given}")
            with pytest.raises(error, match=r"unknown column|type DECIMAL"):
                lake.sql(f"alter table db.t set {given}")
