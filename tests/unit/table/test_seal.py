from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from failing_jobs import Job, net
from failing_jobs import files as bag
from lakelog import connect
from lakelog.errors import InvalidSchema
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.log.register import register_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, folded, make, rows


@pytest.fixture
def table(tmp_path):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2')"
    )
    return lake.table("db.t")


def decide(table, writer: str, epoch: int, ids: list[int]) -> Committer:
    dynamic = table.logical
    register_writer(dynamic, writer)
    task = TaskWriter(dynamic, writer, epoch, 0)
    task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "name": [f"{writer}{epoch}"] * len(ids)}))
    committer = Committer(dynamic, writer)
    committer.commit(epoch, [task.finish()])
    return committer


def test_a_seal_of_many_partitions_writes_each_row_once(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (p int, id int, primary key (p, id)) using lakelog partitioned by (p) "
        "tblproperties ('log-store.enabled' = 'true', 'bucket' = '2')"
    )
    table = lake.table("db.t")
    rows = [{"p": n % 40, "id": n} for n in range(200)]
    table.write(pa.Table.from_pylist(rows, pa.schema([("p", pa.int32()), ("id", pa.int32())])))
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda r: r["id"]) == rows
    assert len(table.logical.store.snapshots.chain_ids()) == 1


def test_the_chain_is_sealed_as_one_snapshot_in_its_order(table) -> None:
    decide(table, "b", 0, [1, 2])
    decide(table, "a", 0, [2, 3])
    (snapshot,) = seal_staged(table.logical)
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("a", 0)
    assert {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()} == {1: "b0", 2: "a0", 3: "a0"}
    assert seal_staged(table.logical) == []


def test_without_a_key_too_one_snapshot_takes_the_epochs_of_all_writers(tmp_path) -> None:
    table = make(tmp_path, key="")
    decide(table, "a", 0, [1])
    decide(table, "a", 1, [2])
    first = decide(table, "b", 0, [3])
    snapshot = seal(first)
    assert snapshot is not None and snapshot.total_record_count == 3
    assert seal_staged(table.logical) == [] and table.logical.decided.all() == []
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == [1, 2, 3]
    assert net(table) == net(table, "latest-full") == bag(table)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_late_rows_of_a_speculative_task_are_reverted_once_by_seals_during_the_next_epoch(
    tmp_path: Path, key: str, restarts: bool
) -> None:
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'", key=key)
    job = Job(table)
    job.epoch(0, [1])
    job.lose(0, [1])  # a second attempt of the task, after the decision
    attempts = job.attempts(1, [2])
    assert len(table.seal()) == 1  # as the optimizer does, while epoch 1 is under way
    if restarts:
        job = Job(table)
        attempts = job.attempts(1, [2])
    job.committer.commit(1, attempts)
    assert net(table) == net(table, "latest-full") == {(1, "e0"): 1, (2, "e1"): 1}
    assert len(table.seal()) == 1
    assert net(table) == bag(table) == {(1, "e0"): 1, (2, "e1"): 1}
    job.epoch(2, [3])
    table.seal()
    assert net(table) == bag(table) == {(1, "e0"): 1, (2, "e1"): 1, (3, "e2"): 1}


def test_a_seal_takes_the_decided_epochs_of_a_writer_and_not_its_open_rows(table) -> None:
    decide(table, "w", 0, [1])
    dynamic = table.logical
    running = TaskWriter(dynamic, "w", 1, 0)
    running.write(pa.record_batch({"id": pa.array([9], pa.int32()), "name": ["later"]}))
    running.flush_log()
    assert [s.commit_identifier for s in table.seal()] == [0]
    assert folded(table) == [(1, "w0"), (9, "later")], "nothing of it is taken back"
    committer = Committer(dynamic, "w")
    committer.commit(1, [running.finish()])
    table.seal()
    assert files(table) == folded(table) == [(1, "w0"), (9, "later")]


@pytest.fixture
def sums(tmp_path):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, total tinyint, primary key (id)) using lakelog tblproperties "
        "('merge-engine' = 'aggregation', 'fields.total.aggregate-function' = 'sum')"
    )
    return lake.table("db.t")


def decide_sums(table, epoch: int, ids: list[int], totals: list[int]) -> None:
    task = TaskWriter(table.logical, "w", epoch, 0)
    task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "total": pa.array(totals, pa.int8())}))
    Committer(table.logical, "w").commit(epoch, [task.finish()])


def test_a_sum_that_does_not_fit_fails_in_the_task_before_its_epoch_is_decided(sums) -> None:
    with pytest.raises(InvalidSchema, match=r"column 'total' of key \{'id': 1\} .* sum that does not fit"):
        decide_sums(sums, 0, [1, 1], [100, 100])
    assert [r.epoch for r in sums.logical.decided.of("w")] == []


def test_sums_of_several_epochs_that_do_not_fit_hold_no_later_epoch_up(sums) -> None:
    for epoch, (key, total) in enumerate([(1, 100), (1, 100), (2, 5)]):
        decide_sums(sums, epoch, [key], [total])
    assert [s.commit_identifier for s in sums.seal()] == [2]
    assert [r.epoch for r in sums.logical.decided.of("w")] == []
    assert sums.scan(filter="id = 2").to_arrow().to_pylist() == [{"id": 2, "total": 5}]
    assert sums.scan(filter="id = 1").to_arrow().to_pylist() == [{"id": 1, "total": None}]


def test_a_process_that_ends_seals_what_it_has_decided(tmp_path: Path) -> None:
    table = make(tmp_path)
    for number in range(3):  # enough for the threads that read manifests
        table.write(rows(1, 2, 3, name=f"n{number}"))
    job = [sys.executable, str(Path(__file__).parent / "ended_stream_job.py"), str(tmp_path / "warehouse")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(job, env=environment, capture_output=True, text=True, check=True)
    assert "Error" not in ended.stderr
    assert table.logical.decided.all() == []
    assert files(table) == [(1, "stream"), (2, "stream"), (3, "n2")]
