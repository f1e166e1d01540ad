"""Where a mirror starts, which topics it takes, and what ends it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import connect
from lakelog.errors import AlreadyExists, InvalidOption, InvalidRequest, OffsetExpired, TableReplaced, Unavailable
from lakelog.logstore.clients import reader_for
from lakelog.logstore.kafka import mirror as kafka_mirror
from lakelog.table.log.register import NamedReaders
from lakelog.table.maintenance.retention import expire_log
from log_days import LogDays
from log_tables import log_of, make, trim
from mirrored_topics import address, committed, ids, mirrored_beside, run, write


@pytest.mark.parametrize(("start", "found"), [("latest-full", [1, 2, 3]), ("earliest", [1, 2, 3]), ("latest", [3])])
def test_the_start_counts_for_a_new_mirror_only(kafka, tmp_path, topic, start, found) -> None:
    table = make(tmp_path)
    write(table, 1, 2)
    run(table, address(kafka, topic), start=start)
    write(table, 3)
    run(table, address(kafka, topic), start="latest")
    assert ids(kafka, topic) == found


def test_a_broker_that_does_not_answer(kafka, tmp_path, topic, monkeypatch) -> None:
    monkeypatch.setattr(kafka_mirror, "TIMEOUT_S", 1.0)
    table = make(tmp_path)
    with pytest.raises(Unavailable, match="127.0.0.1:1 cannot be reached.*the address of the mirror"):
        run(table, f"kafka://127.0.0.1:1/{topic}")


def test_topics_that_an_administrator_has_made(kafka, tmp_path, topic, monkeypatch) -> None:
    table = make(tmp_path)
    write(table, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    position = NewTopic(f"{topic}.position", 1, config={"cleanup.policy": "compact"})
    for made in admin.create_topics([NewTopic(topic, 2), position]).values():
        made.result(120)
    monkeypatch.setattr(kafka_mirror, "NewTopic", None)  # creates none
    monkeypatch.setattr(AdminClient, "create_topics", None, raising=False)
    assert run(table, address(kafka, topic)) == 1


@pytest.mark.parametrize("policy", ["delete", "compact,delete"], ids=["delete", "both"])
def test_a_topic_from_which_the_position_would_expire_is_refused(kafka, tmp_path, topic, policy: str) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    position = NewTopic(f"{topic}.position", 1, config={"cleanup.policy": policy})
    admin.create_topics([position])[position.topic].result(120)
    with pytest.raises(InvalidOption, match=f"{topic}.position.*'cleanup.policy' = '{policy}'.*compact"):
        run(table, to)
    assert ids(kafka, topic) == []


def test_the_command_mirrors_until_the_end_of_the_log(kafka, tmp_path, topic) -> None:
    table = make(tmp_path)
    write(table, 1, 2, 3)
    command = [sys.executable, "-m", "lakelog", "mirror", "db.t", "--to", address(kafka, topic), "--stop", "latest"]
    command += ["--warehouse", str(tmp_path / "warehouse"), "--format", "jsonl"]
    for more in ((4,), (5, 6)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        write(table, *more)
    assert ids(kafka, topic) == [1, 2, 3, 4]


def test_rows_that_expired_before_the_mirror_read_them(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, *range(10))
    run(table, to)
    write(table, *range(10, 20))
    trim(table)
    with pytest.raises(OffsetExpired, match=f"{topic}.*offset.*has expired.*log-store.retention"):
        run(table, to)
    assert ids(kafka, topic) == list(range(10))


def test_a_topic_of_another_producer_or_shape_is_refused(kafka, tmp_path, topic) -> None:
    table = make(tmp_path)
    write(table, 1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 3), NewTopic(f"{topic}-used", 2)]).values():
        made.result(120)
    with pytest.raises(AlreadyExists, match="3 partitions.*needs 2"):
        run(table, address(kafka, topic))
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce(f"{topic}-used", b"x", partition=0)
    producer.flush(30)
    with pytest.raises(AlreadyExists, match="holds or held records"):
        run(table, address(kafka, f"{topic}-used"))


def test_a_deleted_topic_is_not_continued(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1)
    run(table, to)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(120)
    with pytest.raises(InvalidRequest, match=f"was deleted.*{topic}.position"):
        run(table, to)


def test_the_log_keeps_what_whole_changes_need_after_a_kill(kafka, tmp_path, topic, monkeypatch) -> None:
    table, to, whole = make(tmp_path), address(kafka, topic), {"log.consumer.normalize": "true"}
    monkeypatch.setattr("lakelog.table.tail.reader_needs._RECORD_EVERY_S", 0.0)
    days = LogDays(monkeypatch)
    write(table, *range(10))
    run(table, to, start="earliest", options=whole)
    write(table, *range(10), name="b")
    killed = table.mirror(to, options=whole)
    while not next(killed).rows:
        pass
    killed.close()  # the state since the last commits is not saved
    days.pass_to(100)
    write(table, *range(20, 30))
    expire_log(table.logical)
    assert run(table, to, options=whole) == 10


def test_an_idle_mirror_commits_before_the_broker_forgets_its_transactional_id(
    kafka, tmp_path, topic, monkeypatch
) -> None:
    monkeypatch.setattr("lakelog.table.tail.copy._IDLE_S", 0.1)
    table, stopped = make(tmp_path), threading.Event()
    write(table, 1)
    run(table, address(kafka, topic))
    before = sum(1 for _ in committed(kafka, f"{topic}.position"))
    thread = threading.Thread(target=lambda: run_until(tmp_path, address(kafka, topic), stopped))
    thread.start()
    while sum(1 for _ in committed(kafka, f"{topic}.position")) < before + 2:
        assert thread.is_alive()
    stopped.set()
    thread.join(120)
    assert ids(kafka, topic) == [1]


def run_until(tmp_path: Path, to: str, stopped: threading.Event) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        list(lake.table("db.t").mirror(to, stop=stopped))


def test_a_mirror_is_a_named_reader_of_the_log(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1, 2)
    run(table, to)
    log = log_of(table)
    (reader,) = NamedReaders(table.logical.io, table.path).list()
    assert (reader.name, reader.offsets) == (f"mirror-{topic}", reader_for(log).end_offsets())


def test_a_table_that_is_dropped_ends_its_mirror(kafka, tmp_path, topic) -> None:
    table, to = make(tmp_path), address(kafka, topic)
    write(table, 1)
    thread, failed = mirrored_beside(tmp_path, to)
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql("drop table db.t")
        thread.join(120)
        assert isinstance(failed[0], TableReplaced), failed
        lake.sql("create table db.t (id int, name string, primary key (id)) tblproperties "
                 "('log-store.enabled' = 'true', 'bucket' = '2')")  # fmt: skip
        with pytest.raises(InvalidRequest, match="another table.*dropped and created again"):
            run(lake.table("db.t"), to)
