"""Epochs that were decided for another number of buckets than their partition has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.filestore.skipping.predicate import Compare
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.read.committed_rows import rows_of_keys
from lakelog.table.read.file_scan import Scan
from lakelog.table.staging import task_writer
from lakelog.table.staging.task_writer import TaskWriter

IDS = list(range(10))


@pytest.fixture
def lake(tmp_path):
    with connect(warehouse=str(tmp_path / "warehouse")) as opened:
        opened.sql("create database db")
        opened.sql(
            "create table db.t (p string, id int, v string, primary key (p, id)) using lakelog partitioned by (p) "
            "tblproperties ('bucket' = '2')"
        )
        yield opened


@pytest.fixture(params=["inline", "files"])
def staged(request, monkeypatch):
    if request.param == "files":
        monkeypatch.setattr(task_writer, "_INLINE_BYTES", 0)


def rows(v: str) -> pa.RecordBatch:
    return pa.record_batch({"p": ["a"] * len(IDS), "id": pa.array(IDS, pa.int32()), "v": [v] * len(IDS)})


def write(table, v: str) -> None:
    with table.writer() as writer:
        writer.write(rows(v))


def decide(table) -> Committer:
    task = TaskWriter(table.logical, "w", 0, 0)
    task.write(rows("decided"))
    committer = Committer(table.logical, "w")
    committer.commit(0, [task.finish()])
    return committer


def change_buckets(lake):
    lake.sql("alter table db.t set tblproperties ('bucket' = '5')")
    return lake.table("db.t")


def check(table, v: str) -> None:
    """Every key is there once, also where a filter skips buckets."""
    found = table.scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == IDS
    assert set(found["v"].to_pylist()) == {v}
    for key in IDS:
        assert table.scan().where(Compare("id", "=", key)).to_arrow()["v"].to_pylist() == [v]


def totals(table) -> set[int]:
    return {e.total_buckets for e in table.logical.store.live_entries(table.latest_snapshot())}


def test_rows_of_a_new_partition_go_to_the_buckets_of_the_table(lake, staged) -> None:
    decide(lake.table("db.t"))
    table = change_buckets(lake)
    check(table, "decided")
    table.seal()
    assert totals(table) == {5}
    write(table, "new")
    check(table, "new")


def test_a_partition_that_is_not_rescaled_keeps_its_buckets(lake, staged) -> None:
    write(lake.table("db.t"), "old")
    decide(lake.table("db.t"))
    table = change_buckets(lake)
    check(table, "decided")
    table.seal()
    assert totals(table) == {2}
    check(table, "decided")
    keys = pa.table({"p": ["a"] * len(IDS), "id": pa.array(IDS, pa.int32())})
    assert sorted(rows_of_keys(Scan(table.logical), keys)["id"].to_pylist()) == IDS
    assert all(rows_of_keys(Scan(table.logical), keys.slice(at, 1)).num_rows == 1 for at in range(len(IDS)))


def test_what_was_decided_before_a_rescale_is_part_of_it(lake, staged) -> None:
    write(lake.table("db.t"), "old")
    decide(lake.table("db.t"))
    table = change_buckets(lake)
    table.rescale()
    assert totals(table) == {5}
    check(table, "decided")


def test_a_writer_that_knows_the_old_number_decides_after_a_rescale(lake, staged) -> None:
    old = lake.table("db.t")
    write(old, "old")
    table = change_buckets(lake)
    table.rescale()
    committer = decide(old)
    check(table, "decided")
    seal(committer)
    assert totals(table) == {5}
    check(table, "decided")


def test_a_table_with_a_key_has_one_bucket_unless_it_names_a_number(lake):
    lake.sql("create table db.plain (id int, v string, primary key (id)) using lakelog")
    lake.sql("create table db.dynamic (id int, primary key (id)) using lakelog tblproperties ('bucket' = '-1')")
    lake.sql("create table db.free (id int) using lakelog")
    kept = {name: lake.table(f"db.{name}").options.get("bucket") for name in ("plain", "dynamic", "free")}
    assert kept == {"plain": "1", "dynamic": "-1", "free": None}
