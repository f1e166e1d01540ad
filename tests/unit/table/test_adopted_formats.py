"""Tables over a log that Canal, Maxwell or a plain producer writes: every reader has its rows, lakelog writes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Corrupt, InvalidOption, InvalidSchema, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.logstore.formats import LOG_FORMATS
from lakelog.table.health.log_rows import RowCounter
from lakelog.table.read.log_view import capture
from log_tables import append_foreign, log_of
from record_batches import PlainRecord
from records_of_formats import JSON, Given, canal

OTHERS = [name for name in sorted(LOG_FORMATS) if not LOG_FORMATS.load(name).is_written]
ANT, BEE = {"id": 1, "name": "ant"}, {"id": 2, "name": "bee"}


def make(tmp_path: Path, name: str, more: str = "", columns: str = "id int, name string, primary key (id)") -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t ({columns}) using lakelog tblproperties ('bucket' = '1', 'log-store.enabled' = 'true', "
        f"'write-only' = 'true', 'log-store.data-format' = '{name}', 'log-store.key-format' = 'json'{more})"
    )
    return lake.table("db.t")


def append(table: Table, *records: tuple[bytes | None, bytes | None]) -> None:
    append_foreign(log_of(table), 0, [PlainRecord(n, 0, key, value) for n, (key, value) in enumerate(records)])


def as_record(name: str, change: Given) -> tuple[bytes | None, bytes | None]:
    """The key and the value in the topic; a plain producer has only a key for a deletion."""
    key = orjson.dumps({"id": (change.new or change.old or {})["id"]})
    return (key, None) if name == "plain-json" and change.new is None else (key, JSON[name](change))


def rows(table: Table, **options: str) -> dict[int, str]:
    found = table.scan(options={key.replace("_", "."): value for key, value in options.items()}).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


@pytest.mark.parametrize("name", OTHERS)
def test_every_reader_has_the_rows(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name)
    moved = Given(BEE, {"id": 3, "name": "bee"})
    changes = [Given(None, ANT), Given(None, BEE), Given(ANT, {"id": 1, "name": "ANT"}), Given(ANT, None)]
    append(table, *(as_record(name, change) for change in [*changes, moved]), (None, None))
    expected = {2: "bee", 3: "bee"} if name == "plain-json" else {3: "bee"}  # it knows no former key
    assert rows(table, read_mode="union") == expected
    list(table.follow("latest"))
    assert rows(table) == expected
    left: dict[int, str] = {}
    for batch in table.tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            left.pop(row["id"], None)
            left |= {row["id"]: row["name"]} if row["_row_kind"] in ("+I", "+U") else {}
    assert left == expected
    assert rows(table, read_mode="log", streaming="false") == expected


@pytest.mark.parametrize("name", OTHERS)
def test_lakelog_writes_into_the_files_alone(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name)
    data = pa.table({"id": pa.array([5], pa.int32()), "name": ["eel"]})
    for write in (
        lambda: table.write(data),
        lambda: table.delete("id = 1"),
        lambda: connect(warehouse=str(tmp_path / "warehouse")).sql("insert into db.t values (5, 'eel')"),
        lambda: table.writer(),
    ):
        with pytest.raises(UnsupportedFeature, match=rf"'{name}', which another system writes.*'emit\.mode' = 'file'"):
            write()
    table.write(data, options={"emit.mode": "file"})
    append(table, as_record(name, Given(None, ANT)))
    list(table.follow("latest"))
    assert rows(table) == {1: "ant", 5: "eel"}


@pytest.mark.parametrize("name", OTHERS)
def test_a_bad_record_is_kept_beside_the_table_and_replayed(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name, ", 'on-bad-record' = 'keep'", "id int, name int, primary key (id)")
    good, bad = Given(None, {"id": 1, "name": 7}), Given(None, {"id": 2, "name": "x"})
    append(table, as_record(name, good), as_record(name, bad), (b"k", b'{"a":' * 2_000), (b"k", b"\xff"), (b"k", b"[]"))
    list(table.follow("latest"))
    assert rows(table) == {1: 7}
    kept = connect(warehouse=str(tmp_path / "warehouse")).table("db.t$rejected").scan().to_arrow()
    assert kept.num_rows == 4 and set(kept["format"].to_pylist()) == {name}
    assert all(reason.startswith("the value cannot be read") for reason in kept["reason"].to_pylist())
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    summary = lake.table("db.t").replay_rejected()
    assert (summary.written, summary.rejected) == (0, 4)


def test_without_it_a_bad_record_stops_the_follower_with_its_place(tmp_path: Path) -> None:
    table = make(tmp_path, "canal-json")
    append(table, as_record("canal-json", Given(None, ANT)), (b"k", orjson.dumps({"type": "TRUNCATE", "isDdl": True})))
    with pytest.raises(Corrupt, match=r"offset \d+ of bucket 0 .*field 'type' is 'TRUNCATE'"):
        list(table.follow("latest"))


def test_a_deletion_by_key_that_was_rejected_is_replayed(tmp_path: Path) -> None:
    table = make(tmp_path, "plain-json", ", 'on-bad-record' = 'keep'")
    append(table, as_record("plain-json", Given(None, ANT)), (b"[1]", None), (b'{"id":1}', None), (b'{"x":1}', None))
    list(table.follow("latest"))
    kept = connect(warehouse=str(tmp_path / "warehouse")).table("db.t$rejected").scan().to_arrow()
    assert rows(table) == {} and kept["text"].to_pylist() == ['-{"id":[1]}', '-{"id":null}']


@pytest.mark.parametrize("name", OTHERS)
def test_a_record_that_lacks_a_column_is_refused_or_has_null(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, name)
    append(table, as_record(name, Given(None, {"id": 1})))
    with pytest.raises(InvalidSchema, match=r"offset \d+ of bucket 0"):
        list(table.follow("latest"))
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("alter table db.t set tblproperties ('write.missing-columns' = 'null')")
    list(lake.table("db.t").follow("latest"))
    assert rows(lake.table("db.t")) == {1: None}


def test_the_table_has_one_partition_and_a_log_of_rows(tmp_path: Path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    given: dict[str, Any] = {
        "'bucket' = '2'": "one partition",
        "'bucket' = '1', 'sequence.field' = 'id'": "log of rows",
    }
    for options, why in given.items():
        with pytest.raises(InvalidOption, match=f"'log-store.data-format' = 'canal-json'.*{why}"):
            lake.sql(
                "create table db.t (id int, primary key (id)) tblproperties ('log-store.enabled' = 'true', "
                f"'log-store.data-format' = 'canal-json', {options})"
            )
    lake.sql("create table db.t (id int, primary key (id)) tblproperties ('bucket' = '1')")
    with pytest.raises(InvalidOption, match="cannot be set for a table that exists"):
        lake.sql(
            "alter table db.t set tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'canal-json')"
        )


def test_rows_of_one_statement_are_counted_and_all_there(tmp_path: Path) -> None:
    table = make(tmp_path, "canal-json")
    value = orjson.dumps(canal(*(Given(None, {"id": n, "name": None if n == 7 else "x"}) for n in range(1, 1001))))
    append(table, (b"k", value))
    assert sum(batch.num_rows for batch in table.tail("earliest", stop="latest")) == 1000
    assert RowCounter(table.logical, capture(table.logical)).of(0).unowned == 1000
    list(table.follow("latest"))
    assert len(rows(table)) == 1000 and rows(table)[7] is None
