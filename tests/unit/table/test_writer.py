from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import CommitConflict, CommitDecided, InvalidRequest, LakelogError, Unavailable
from lakelog.table.staging import staged_rows
from lakelog.table.staging.task_writer import TaskWriter
from limits import limit
from log_tables import rows


def make(tmp_path, more: str = ""):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string, primary key (id)) using lakelog "
        f"tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json'{more})"
    )
    return lake.table("db.t")


def files(table) -> dict[int, str]:
    return {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}


def fold(table) -> dict[int, str]:
    state: dict[int, str] = {}
    for chunk in table.log_records():
        for key, value in zip(chunk["key"].to_pylist(), chunk["value"].to_pylist(), strict=True):
            if value is not None:
                after = json.loads(value)["after"]
                state.pop(json.loads(key)["id"], None)
                if after is not None:
                    state[after["id"]] = after["name"]
    return state


def test_a_seal_that_fails_loses_no_decided_row(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)

    def lost(*_: object) -> None:
        raise CommitConflict("lost")

    with pytest.raises(CommitDecided, match="do not write them again"), table.writer() as writer:
        writer.write(rows(1))
        monkeypatch.setattr("lakelog.table.commit.seal._commit", lost)
        writer.commit()
    monkeypatch.undo()
    assert files(table) == fold(table) == {1: "a"}
    table.seal()
    assert files(table) == {1: "a"} and table.latest_snapshot() is not None


def test_commits_of_an_open_writer_within_the_interval_share_a_snapshot(tmp_path, monkeypatch) -> None:
    table, synced, sync = make(tmp_path, ", 'commit.interval' = '1 h'"), [], os.fsync
    here = threading.get_ident()  # threads of other tables sync, too

    def count(handle: int) -> None:
        synced.extend([handle] if threading.get_ident() == here else [])
        sync(handle)

    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        assert table.latest_snapshot().id == 1
        monkeypatch.setattr(os, "fsync", count)
        for number in (2, 3):
            writer.write(rows(number))
            writer.commit()
        assert len(synced) == 2 * 2, "a file of the decision and its directory"
        assert (table.latest_snapshot().id, files(table)) == (1, {1: "a", 2: "a", 3: "a"})
        assert [snapshot.id for snapshot in table.seal()] == [2]
        writer.write(rows(4))
        writer.commit()
    assert table.latest_snapshot().id == 3 and files(table) == fold(table) == dict.fromkeys((1, 2, 3, 4), "a")


def test_rows_that_only_a_compaction_shows_are_there_after_each_commit(tmp_path) -> None:
    table = make(tmp_path, ", 'commit.interval' = '1 h', 'deletion-vectors.enabled' = 'true'")
    with table.writer() as writer:
        for number in (1, 2):
            writer.write(rows(number))
            writer.commit()
            assert files(table) == dict.fromkeys(range(1, number + 1), "a")
    assert files(table) == fold(table) == {1: "a", 2: "a"}


@pytest.mark.parametrize(
    "statement",
    [
        "call sys.create_tag(table => 'db.t', tag => 'now')",
        "alter table db.t create tag now",
        "alter table db.t create branch now",
    ],
)
def test_a_tag_or_branch_of_the_newest_rows_has_all_commits(tmp_path, statement: str) -> None:
    table = make(tmp_path, ", 'commit.interval' = '1 h'")
    with table.writer() as writer:
        for number in (1, 2):
            writer.write(rows(number))
            writer.commit()
        connect(warehouse=str(tmp_path / "warehouse")).sql(statement)
        assert table.latest_snapshot().id == 2
    assert files(table) == {1: "a", 2: "a"}


def test_a_writer_without_an_interval_makes_a_snapshot_of_each_commit(tmp_path) -> None:
    table = make(tmp_path, ", 'commit.interval' = '0 s', 'write-only' = 'true'")
    with table.writer() as writer:
        for number in (1, 2, 3):
            writer.write(rows(number))
            writer.commit()
            assert table.latest_snapshot().id == number


def test_a_task_that_cannot_finish_takes_its_rows_back(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)

    def full(self: TaskWriter) -> None:
        self.flush_log()
        raise Unavailable("disk full")

    monkeypatch.setattr(TaskWriter, "finish", full)
    with pytest.raises(Unavailable, match="disk full"), table.writer() as writer:
        writer.write(rows(88))
    monkeypatch.undo()
    assert files(table) == fold(table) == {}
    table.write(rows(88))
    assert files(table) == fold(table) == {88: "a"}


def test_a_bucket_that_fails_leaves_no_files_of_the_others(tmp_path, monkeypatch) -> None:
    lake = connect(warehouse=str(tmp_path))
    lake.sql("create table db.t (id int, primary key (id)) using lakelog tblproperties ('bucket' = '4')")
    table = lake.table("db.t")
    write = staged_rows.write_run_files

    def fails_once(dynamic, partition, bucket, *rest):
        if bucket == 2:
            raise Unavailable("no room")
        return write(dynamic, partition, bucket, *rest)

    monkeypatch.setattr(staged_rows, "write_run_files", fails_once)
    limit(monkeypatch, inline_bytes=0)
    with pytest.raises(Unavailable, match="no room"), table.writer() as writer:
        writer.write(pa.table({"id": pa.array(range(1000), pa.int32())}))
    assert not list((tmp_path / "db.db" / "t").glob("bucket-*/*.parquet"))
    assert table.scan().to_arrow().num_rows == 0


def test_a_table_read_whole_has_the_rows_in_the_order_of_its_batches(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path))
    lake.sql("create table db.t (id int, primary key (id)) using lakelog tblproperties ('bucket' = '5')")
    lake.table("db.t").write(pa.table({"id": pa.array(range(1000), pa.int32())}))
    scan = lake.table("db.t").scan()
    assert len(scan.plan()) == 5
    assert scan.to_arrow().column("id").to_pylist() == [
        i for b in scan.to_batches() for i in b.column("id").to_pylist()
    ]


def fails(call: Callable[[], object], error: type[LakelogError]) -> None:
    """A call whose error the caller handles, to go on."""
    with pytest.raises(error):
        call()


def half_bad() -> pa.RecordBatchReader:
    """A source whose first batch fits, and whose second one does not."""
    names = pa.schema([("id", pa.int64()), ("name", pa.string())])
    batches = [pa.record_batch({"id": [at], "name": ["a"]}, names) for at in (2, 2**40)]
    return pa.RecordBatchReader.from_batches(names, batches)


BAD = {
    "type": lambda: pa.table({"id": [2], "name": [3.5]}),
    "value": lambda: pa.table({"id": [2**40]}),
    "no rows": dict,
}


@pytest.mark.parametrize("log", ["true", "false"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("bad", BAD)
def test_rows_that_do_not_fit_are_refused_alone(tmp_path, log, overwrite, bad) -> None:
    table = make(tmp_path) if log == "true" else without_a_log(tmp_path)
    with table.writer(overwrite=overwrite) as writer:
        fails(lambda: writer.write(BAD[bad]()), LakelogError)
        writer.write(rows(1))
        fails(lambda: writer.write(BAD[bad]()), LakelogError)
        writer.write(rows(3))
    assert files(table) == {1: "a", 3: "a"}
    assert log == "false" or fold(table) == files(table)


@pytest.mark.parametrize("log", ["true", "false"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_block_whose_write_failed_half_way_does_not_end_in_silence(tmp_path, log, overwrite) -> None:
    table = make(tmp_path) if log == "true" else without_a_log(tmp_path)
    writer = table.writer(overwrite=overwrite)
    with pytest.raises(InvalidRequest, match="not in table db.t: an earlier call failed .*'id'"), writer:
        writer.write(rows(1))
        fails(lambda: writer.write(half_bad()), LakelogError)
    assert files(table) == {} and table.latest_snapshot() is None


def test_after_an_abort_the_writer_goes_on(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        fails(lambda: writer.write(half_bad()), LakelogError)
        fails(lambda: writer.write(rows(3)), InvalidRequest)
        writer.abort()
        writer.write(rows(4))
    assert files(table) == fold(table) == {4: "a"}


def test_a_failed_commit_that_is_handled_fails_the_end_of_the_block(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)

    def refused(*_: object) -> None:
        raise Unavailable("the disk is full")

    with pytest.raises(InvalidRequest, match="disk is full"), table.writer() as writer:
        writer.write(rows(1))
        with monkeypatch.context() as patch:
            patch.setattr(TaskWriter, "finish", refused)
            fails(writer.commit, Unavailable)
    assert files(table) == fold(table) == {}


@pytest.mark.parametrize("log", ["true", "false"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_threads_share_a_writer(tmp_path, log, overwrite) -> None:
    table = make(tmp_path) if log == "true" else without_a_log(tmp_path)
    with table.writer(overwrite=overwrite) as writer, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: writer.write(rows(*range(n, n + 5))), range(0, 400, 5)))
    assert files(table) == dict.fromkeys(range(400), "a")


def test_a_writer_that_is_dropped_gives_its_lease_up(tmp_path) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    (name,) = table.logical.registered.writers()
    kept = table.logical.registered.kept(name)
    assert kept is not None and not kept.is_unused()
    del writer
    gc.collect()
    assert kept.is_unused(), "no thread renews it, so that another process takes the rows back"


def without_a_log(tmp_path):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql("create table db.t (id int, name string, primary key (id)) using lakelog")
    return lake.table("db.t")
