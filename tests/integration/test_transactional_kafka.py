"""Reads of committed rows over a real Kafka: tails, streams' plans, the switch from a snapshot, long epochs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.errors import OffsetExpired
from lakelog.lake.table import Table
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.protocol.control_records import commit_record, commits_in
from lakelog.service.servers.server_process import KafkaBroker
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, make, rows

TRANSACTIONAL = {"log.consistency": "transactional"}


@pytest.fixture(params=["debezium-json", "arrow"])
def table(request: pytest.FixtureRequest, kafka: KafkaBroker, tmp_path: Path) -> Table:
    more = f", 'log-store.address' = '{kafka.bootstrap}', 'log-store.drop-with-table' = 'true'"
    return make(tmp_path, f"{more}, 'log-store.data-format' = '{request.param}'", key="")


def seen(table: Table, start: str = "earliest", **options: str) -> list[int]:
    batches = table.tail(start, stop="latest", options={**TRANSACTIONAL, **options})
    return sorted(n for batch in batches for n in batch["id"].to_pylist())


def fail_over(table: Table, writer: str, epoch: int, *ids: int) -> Committer:
    """An epoch with two attempts, of which the second one counts; decided, not sealed."""
    register_writer(table.logical, writer)
    tasks = [TaskWriter(table.logical, writer, epoch, 0) for _ in range(2)]
    for task in tasks:
        task.write(rows(*ids).to_batches()[0])
        task.flush_log()
    committer = Committer(table.logical, writer)
    committer.commit(epoch, [tasks[1].finish()])
    tasks[0].close()
    return committer


def test_committed_rows_are_emitted_once_by_any_process(table) -> None:
    first, second = fail_over(table, "x", 0, 1, 2), fail_over(table, "y", 0, 3, 4)
    assert seen(table) == seen(table, "latest-full") == []
    seal(second)
    assert seen(table) == seen(table, "latest-full") == [1, 2, 3, 4]
    log = table.logical.log
    assert log is not None
    for bucket, end in reader_for(log).end_offsets().items():
        for commit in (c for part in reader_for(log).chunks(bucket, 0, end) for c in commits_in(part)):
            again = commit_record(commit.writer, commit.epoch, commit.attempts, commit.first)
            appender_for(log).append(bucket, again)
    appender_for(log).flush()
    seal(first)
    assert seen(table) == seen(table, "latest-full") == [n for n, _ in files(table)] == [1, 2, 3, 4]


@pytest.mark.parametrize("most", [100, 100_000])
def test_long_epochs_among_others_are_read_back(table, monkeypatch, most) -> None:
    monkeypatch.setattr("lakelog.table.log.scan._READ_ROWS", most)
    with table.writer() as long:
        for start in range(0, 3_000, 500):
            long.write(rows(*range(start, start + 500)))
            long.flush()
            with table.writer() as short:
                short.write(rows(10_000 + start))
        assert seen(table) == [10_000 + start for start in range(0, 3_000, 500)]
    assert seen(table) == [*range(3_000), *(10_000 + start for start in range(0, 3_000, 500))]


def test_a_tail_that_goes_on_gets_each_commit(table) -> None:
    changes = table.tail("earliest", options=TRANSACTIONAL)
    found: list[int] = []
    done = threading.Event()

    def follow() -> None:
        while len(found) < 200:
            found.extend(next(changes)["id"].to_pylist())
        done.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    with table.writer() as writer:
        for number in range(20):
            writer.write(rows(*range(number * 10, number * 10 + 10)))
            writer.commit()
    assert done.wait(120)
    assert sorted(found) == list(range(200))


def test_the_rows_of_a_stream_do_not_depend_on_cuts(table) -> None:
    for epoch in range(4):
        seal(fail_over(table, "w", epoch, *range(epoch * 10, epoch * 10 + 10)))
    scan = LogScan(table.logical.with_hints(TRANSACTIONAL))
    for bucket, end in scan.reader.end_offsets().items():
        whole = [n for b in scan.read(bucket, 0, end) for n in b["id"].to_pylist()]
        for step in (1, 7):
            cuts = [(start, min(end, start + step)) for start in range(0, end, step)]
            assert [n for cut in cuts for b in scan.read(bucket, *cut) for n in b["id"].to_pylist()] == whole


def test_an_epoch_that_has_expired_in_part(kafka, table) -> None:
    register_writer(table.logical, "w")
    task, committer = TaskWriter(table.logical, "w", 0, 0), Committer(table.logical, "w")
    task.write(rows(*range(40)).to_batches()[0])
    committer.commit(0, [task.finish()])
    start = LogScan(table.logical).reader.end_offsets()
    seal(committer)
    log = table.logical.log
    assert log is not None
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for done in admin.delete_records([TopicPartition(log.topic, bucket, 1) for bucket in start]).values():
        done.result(120)
    with pytest.raises(OffsetExpired, match="latest-full"):
        list(table.tail(start, stop="latest", options=TRANSACTIONAL))
    full = {**TRANSACTIONAL, "scan.expired-offsets": "latest-full"}
    assert sum(b.num_rows for b in table.tail(start, stop="latest", options=full)) == 40
    held = {**TRANSACTIONAL, "scan.expired-offsets": "earliest"}
    assert sum(b.num_rows for b in table.tail(start, stop="latest", options=held)) == len(seen(table))
