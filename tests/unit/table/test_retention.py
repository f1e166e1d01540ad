from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lakelog
from lakelog.filestore.commit.request import CommitRequest
from lakelog.io import clock
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.maintenance.retention import expire_by_options, expire_snapshots
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.log_state import state_at
from lakelog.table.staging.task_writer import TaskWriter
from limits import forget_tables, limit


def table_of(tmp_path, options: str, columns: str = "id int, name string, primary key (id)", more: str = ""):
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(f"create database db; create table db.t ({columns}) {more} tblproperties ({options})")
    return lake.table("db.t")


def write(table, *ids: int, **columns: object) -> None:
    with table.writer(missing="null") as writer:
        others = {name: [value] * len(ids) for name, value in {"name": "a", **columns}.items()}
        writer.write(pa.table({"id": pa.array(ids, pa.int32()), **others}))


def test_a_write_expires_what_the_options_say(tmp_path) -> None:
    table = table_of(tmp_path, "'snapshot.num-retained.min'='1', 'snapshot.num-retained.max'='2'")
    for number in range(5):
        write(table, number)
    assert table.logical.store.snapshots.chain_ids() == [5, 6]  # the last is a compaction
    assert table.scan().to_arrow().num_rows == 5


def test_a_write_only_table_is_left_to_another_job(tmp_path) -> None:
    table = table_of(tmp_path, "'snapshot.num-retained.min'='1', 'snapshot.num-retained.max'='2', 'write-only'='true'")
    for number in range(6):
        write(table, number)
    assert table.logical.store.snapshots.chain_ids() == [1, 2, 3, 4, 5, 6]


def test_expiry_never_loses_the_state_of_the_log(tmp_path) -> None:
    table = table_of(tmp_path, "'log-store.enabled'='true', 'write-only'='true'")
    write(table, 1)
    write(table, 2)
    store = table.logical.store
    state = state_at(store, store.latest_snapshot())
    assert state.offsets
    for number in range(3):  # as another engine commits, without properties
        store.commit(CommitRequest("java", number, "APPEND", allow_empty=True))
    assert expire_snapshots(table.logical, retain_max=1) == [1]
    assert state_at(store, store.latest_snapshot()) == state


@pytest.mark.parametrize("inline_bytes", [1 << 20, 0])
def test_epochs_of_a_seal_that_died_are_not_sealed_again_after_a_rollback(tmp_path, monkeypatch, inline_bytes) -> None:
    limit(monkeypatch, inline_bytes=inline_bytes)
    table = table_of(tmp_path, "'bucket'='1'")
    write(table, 1)
    task = TaskWriter(table.logical, "w", 0, 0)
    task.write(pa.record_batch({"id": pa.array([2], pa.int32()), "name": ["b"]}))
    committer = Committer(table.logical, "w")
    committer.commit(0, [task.finish()])
    with monkeypatch.context() as dies:
        dies.setattr(DecidedEpochs, "forget", lambda *_: None)
        seal(committer)
    table.rollback_to(1)
    assert table.seal() == []
    assert table.scan().to_arrow()["id"].to_pylist() == [1]


def test_files_of_decided_epochs_are_no_orphans(tmp_path) -> None:
    table = table_of(tmp_path, "'bucket'='1'")
    inner = table.logical
    task = TaskWriter(inner, "w", 0, 0)
    rows = pa.table({"id": pa.array(range(200_000), pa.int32()), "name": [f"n{i}" * 3 for i in range(200_000)]})
    for batch in rows.to_batches():
        task.write(batch)
    Committer(inner, "w").commit(0, [task.finish()])
    assert inner.store.latest_snapshot() is None
    assert table.remove_orphan_files("0 s").files == ()
    table.seal()
    assert table.remove_orphan_files("0 s").files == ()
    assert table.scan().to_arrow().num_rows == 200_000


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_the_readers_of_a_log_get_a_delete_of_each_row_of_an_expired_partition(tmp_path, mode) -> None:
    columns = "id int, name string, day string, primary key (id, day)"
    options = f"'partition.expiration-time'='7 d', 'log-store.enabled'='true', 'log.changelog-mode'='{mode}'"
    table = table_of(tmp_path, options, columns, "partitioned by (day)")
    today = datetime.now(UTC).date().isoformat()
    for number, day in enumerate(["2020-01-01", today, "2020-01-02", "2020-01-01"]):
        write(table, number, day=day)
    assert [need.kind for need in table.health().needs if "partition" in need.kind] == ["partition-expiry"]
    assert table.expire_partitions() == [{"day": "2020-01-01"}, {"day": "2020-01-02"}]
    assert table.scan().to_arrow()["day"].to_pylist() == [today]
    found = Counter()
    for batch in table.tail("earliest", stop="latest"):
        for kind, number in zip(batch["_row_kind"].to_pylist(), batch["id"].to_pylist(), strict=True):
            found[number] += 1 if kind[0] == "+" else -1
    assert +found == Counter({1: 1})
    assert table.expire_partitions() == []
    assert not [need for need in table.health().needs if "partition" in need.kind]


def test_a_writer_that_leaves_out_the_log_drops_no_partition_that_the_log_has(tmp_path) -> None:
    columns = "id int, name string, day string, primary key (id, day)"
    options = "'partition.expiration-time'='7 d', 'log-store.enabled'='true'"
    table = table_of(tmp_path, options, columns, "partitioned by (day)")
    write(table, 1, day="2020-01-01")
    forget_tables()
    table.write(
        pa.table({"id": pa.array([2], pa.int32()), "name": ["a"], "day": ["2999-01-01"]}), options={"emit.mode": "file"}
    )
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_partitions_are_dropped_after_a_write(tmp_path) -> None:
    columns = "id int, name string, day string, primary key (id, day)"
    table = table_of(tmp_path, "'partition.expiration-time'='7 d'", columns, "partitioned by (day)")
    write(table, 1, day="2020-01-01")
    assert table.scan().to_arrow().num_rows == 0
    write(table, 2, day="2020-01-02")
    assert table.scan().to_arrow().num_rows == 1  # checked once an hour
    assert table.expire_partitions() == [{"day": "2020-01-02"}]
    expire_by_options(table.logical)
    assert table.scan().to_arrow().num_rows == 0


MONTH_MS = 31 * 86_400_000


def test_a_machine_whose_clock_is_ahead_removes_nothing_that_is_young(tmp_path, monkeypatch) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(
        "create table db.t (id bigint, at bigint, primary key (id)) using lakelog tblproperties "
        "('bucket' = '1', 'snapshot.num-retained.min' = '1', 'snapshot.time-retained' = '1 h', 'write-only' = 'true', "
        "'record-level.expire-time' = '1 d', 'record-level.time-field' = 'at')"
    )
    table, now_s = lake.table("db.t"), clock.now_ms() // 1000
    for number in range(3):
        lake.write(pa.table({"id": [number], "at": [now_s]}), "db.t")
    table.create_tag("young", retained=timedelta(days=5))
    store, real = table.logical.store, clock.now_ms
    store.consumers.record("reader", 3)
    with monkeypatch.context() as ahead:
        ahead.setattr(clock, "now_ms", lambda: real() + MONTH_MS)
        ahead.setattr(clock, "local_now_ms", lambda: real() + MONTH_MS)
        assert table.expire_snapshots() == []
        assert (store.tags.expire(), store.consumers.expire(timedelta(days=1))) == ([], [])
        table.compact(full=True)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
    store.consumers.delete("reader")
    assert table.expire_snapshots(older_than=timedelta(0)) == [1, 2, 3]


def test_what_a_clock_of_the_future_has_dated_is_not_kept_until_then(tmp_path, monkeypatch) -> None:
    lake, real = lakelog.connect(warehouse=str(tmp_path)), clock.now_ms
    options = "'snapshot.num-retained.min' = '1', 'snapshot.time-retained' = '1 h', 'write-only' = 'true'"
    lake.sql(f"create database db; create table db.t (id bigint) using lakelog tblproperties ({options})")
    for ahead_ms in (0, MONTH_MS, 0, 0):
        with monkeypatch.context() as ahead:
            ahead.setattr(clock, "now_ms", lambda: real() + ahead_ms)  # noqa: B023
            lake.write(pa.table({"id": [1]}), "db.t")
    table = lake.table("db.t")
    assert table.expire_snapshots() == []
    for number in range(1, 5):
        path = tmp_path / "db.db" / "t" / "snapshot" / f"snapshot-{number}"
        os.utime(path, (path.stat().st_mtime - 7_200,) * 2)
    assert table.expire_snapshots() == [1, 2, 3]
