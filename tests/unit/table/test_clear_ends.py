"""Faults of the surroundings end with an error that says what happened and what to do."""

from __future__ import annotations

import multiprocessing
import os
from functools import partial

import polars as pl
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidOption, InvalidRequest, NotFound, UnsupportedFeature
from lakelog.filestore.commit.commit import _RetryPolicy
from lakelog.io import clock
from lakelog.io.storage.local import LocalFileIO
from lakelog.logstore.base import LogLocation
from lakelog.logstore.kafka.topic import error_of
from lakelog.options.option import Options


def make(tmp_path, more: str = "", columns: str = "id int, name string, primary key (id)", part: str = ""):
    lake = connect(warehouse=str(tmp_path))
    lake.sql(f"create table db.t ({columns}) using lakelog{part}" + (f" tblproperties ({more})" if more else ""))
    return lake.table("db.t")


def write(table, *ids: int) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "name": ["a"] * len(ids)}))


def write_in_child(table, answers) -> None:
    try:
        write(table, 2)
        answers.put("written")
    except InvalidRequest as why:
        answers.put(str(why))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
def test_a_child_forked_beside_polars_threads_says_that_it_cannot_write(tmp_path) -> None:
    table = make(tmp_path, "'log-store.enabled' = 'true'")
    write(table, 1)
    pl.DataFrame({"id": [2, 1]}).sort("id")  # a small write starts no thread of polars
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=write_in_child, args=(table, answers))
    child.start()
    try:
        assert "forked" in answers.get(timeout=120) and table.scan().to_arrow().num_rows == 1
    finally:
        child.join(120)
        child.kill()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("is_overwrite", [False, True])
@pytest.mark.parametrize("more", ["'log-store.enabled' = 'true'", ""], ids=["log", "files"])
def test_a_writer_stays_with_the_process_that_opened_it(tmp_path, more, is_overwrite) -> None:
    """A child that used its parent's writer ended the epoch, and the parent's later rows were lost in silence."""
    table = make(tmp_path, more)
    rows = [pa.table({"id": pa.array([n], pa.int32()), "name": ["a"]}) for n in range(3)]
    with table.writer(overwrite=is_overwrite) as writer:
        writer.write(rows[0])
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (partial(writer.write, rows[1]), writer.commit, writer.close):
                try:
                    use()
                except InvalidRequest:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        writer.write(rows[2])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 2]


def test_a_slow_reader_gets_an_error_for_its_expired_snapshot(tmp_path) -> None:
    table = make(tmp_path, "'write-only' = 'true'")
    write(table, 1)
    scan = table.scan()
    splits = scan.plan()
    for i in range(2, 5):
        write(table, i)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    with pytest.raises(NotFound, match=r"snapshot 1 of table db\.t expired while it was read.*snapshot\.time-retained"):
        list(scan.read(splits[0]))


def test_a_slow_tail_gets_an_error_for_its_expired_snapshot(tmp_path) -> None:
    table = make(tmp_path, "'write-only' = 'true', 'log-store.enabled' = 'true'")
    write(table, 1)
    tail = table.tail("latest-full", stop="latest")
    for i in range(2, 5):
        write(table, i)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="0 s")
    with pytest.raises(NotFound, match=r"snapshot 1 of table db\.t expired while it was read.*snapshot\.time-retained"):
        list(tail)


def test_a_row_that_kafka_does_not_take_is_a_row_to_correct() -> None:
    from confluent_kafka import KafkaError

    location = LogLocation("kafka", "localhost:9092", "orders", 1)
    found = error_of(location, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    assert isinstance(found, InvalidRequest) and "max.message.bytes" in str(found) and "orders" in str(found)


@pytest.mark.parametrize("address", ["/var/log.sqlite", "./log.sqlite", "logs/my.db", "file:/tmp/x"])
def test_the_path_of_a_file_is_no_address_of_kafka(tmp_path, address) -> None:
    with pytest.raises(InvalidOption, match="'log-store.type' = 'embedded'"):
        make(tmp_path, f"'log-store.enabled' = 'true', 'log-store.address' = '{address}'")


@pytest.mark.parametrize("key", ["", ", primary key (day, id)"])
def test_partitions_that_cannot_expire_beside_a_log_are_refused(tmp_path, key) -> None:
    options = (
        "'log-store.enabled' = 'true', 'partition.expiration-time' = '1 d', "
        "'partition.expiration-strategy' = 'update-time'"
    )
    table = make(tmp_path, options, f"day string, id int{key}", " partitioned by (day)")
    table.write(pa.table({"day": ["2020-01-01"], "id": pa.array([1], pa.int32())}))
    with pytest.raises(UnsupportedFeature, match="has a log of input rows"):
        table.expire_partitions()
    assert table.scan().to_arrow().num_rows == 1
    assert not [need for need in table.health().needs if "partition" in need.kind]


def test_a_commit_that_others_overtake_again_and_again_goes_on(monkeypatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(clock, "sleep", waits.append)
    retries = _RetryPolicy(Options({}))
    assert all(retries.wait_after_loss(snapshot) for snapshot in range(200))
    assert max(waits) < 1
    stalled = _RetryPolicy(Options({}))
    assert [stalled.wait_after_loss(7) for _ in range(11)] == [True] * 10 + [False]
    few = _RetryPolicy(Options({"commit.max-retries": "2"}))
    assert [few.wait_after_loss(snapshot) for snapshot in range(3)] == [True, True, False]


def test_a_writer_that_others_overtake_fifteen_times_commits_in_the_end(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, "'write-only' = 'true'", "id int, name string")
    other = connect(warehouse=str(tmp_path)).table("db.t")
    create, left, is_other = LocalFileIO.create, list(range(15)), list[bool]()

    def overtaken(self, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" in path and left and not is_other:
            is_other.append(True)
            write(other, 100 + left.pop())
            is_other.clear()
        return create(self, path, data)

    monkeypatch.setattr(LocalFileIO, "create", overtaken)
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)
    write(table, 1)
    assert not left and table.scan().to_arrow().num_rows == 16
