from __future__ import annotations

import multiprocessing
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lakelog.logstore.base import LogLocation, Records
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.embedded import appender as embedded
from lakelog.logstore.embedded import file as embedded_file
from lakelog.logstore.embedded.system import EmbeddedLogSystem
from log_days import LogDays

SYSTEM = EmbeddedLogSystem()


@pytest.fixture
def location(tmp_path: Path) -> LogLocation:
    return SYSTEM.create(LogLocation("embedded", str(tmp_path / "t" / "lakelog" / "log.sqlite"), "t", 2))


def records(values: list[bytes]) -> Records:
    return Records(pa.nulls(len(values), pa.large_binary()), pa.array(values, pa.large_binary()), b"1|d|w|0|a")


def append_many(location: LogLocation, name: bytes) -> None:
    for n in range(50):
        appender_for(location).append(0, records([b"%s %d" % (name, n), b"%s %d'" % (name, n)]))


def test_processes_append_to_one_bucket_without_losing_a_record(location: LogLocation) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(location, name)) for name in (b"a", b"b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    reader = SYSTEM.reader(location)
    found = reader.read(0, 0, 200)
    reader.close()
    assert found.column("offset").to_pylist() == list(range(200))
    for name in (b"a", b"b"):
        mine = [v for v in found.column("value").to_pylist() if v.startswith(name)]
        assert mine == [v for n in range(50) for v in (b"%s %d" % (name, n), b"%s %d'" % (name, n))]


def test_a_failed_transaction_leaves_no_rows(location: LogLocation) -> None:
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    with pytest.raises(NotFound, match="no bucket 9"):
        appender.append(9, records([b"a"]))
    appender.append(0, records([b"b"]))
    assert reader.read(0, 0).column("value").to_pylist() == [b"b"]
    appender.close()
    reader.close()


def test_another_machine_gets_an_error_that_names_kafka(location: LogLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_file, "machine_identity", lambda: "elsewhere/another-boot")
    with pytest.raises(InvalidRequest, match="kafka"):
        SYSTEM.check(location)
    with pytest.raises(InvalidRequest, match="one machine only"):
        SYSTEM.appender(location)


def test_the_same_machine_may_restart_or_be_a_container_of_another_name(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, boot = location.machine.rpartition("/")
    for now in (f"{host}/after-a-restart", f"another-container/{boot}"):
        monkeypatch.setattr(embedded_file, "machine_identity", lambda now=now: now)
        SYSTEM.check(location)


def test_a_spark_on_several_machines_cannot_use_it(location: LogLocation) -> None:
    with pytest.raises(InvalidRequest, match=r"log-store\.address"):
        SYSTEM.check(location, spread=True)


def test_a_deleted_file_is_not_recreated_empty(location: LogLocation) -> None:
    SYSTEM.drop(location)
    with pytest.raises(NotFound, match="another machine"):
        SYSTEM.reader(location)
    assert not os.path.exists(location.address)


def test_a_file_that_is_something_else_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    path.write_bytes(b"something else entirely, and long enough to be read" * 100)
    with pytest.raises(Corrupt):
        SYSTEM.appender(LogLocation("embedded", str(path), "t", 1))


def test_dropping_leaves_no_file(location: LogLocation) -> None:
    appender = SYSTEM.appender(location)
    appender.append(0, records([b"a"]))
    appender.close()
    SYSTEM.drop(location)
    assert list(Path(location.address).parent.iterdir()) == []


def test_an_acknowledged_record_survives_a_power_loss(location: LogLocation) -> None:
    """synchronous=FULL (2): the decision of an epoch is on disk, so its records must be, too."""
    appender = embedded.EmbeddedAppender(location)
    assert appender._database.execute("pragma synchronous").fetchone() == (2,)
    assert appender._database.execute("pragma journal_mode").fetchone() == ("wal",)
    appender.close()


def test_retention_forgets_old_records_and_no_offset(location: LogLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_TRIM_EVERY", 1)
    appender, reader = SYSTEM.appender(replace(location, retention_ms=1_000)), SYSTEM.reader(location)
    days = LogDays(monkeypatch)
    for now in (0, 500, 1_200, 5_000):
        days.pass_to_ms(now)
        appender.append(0, records([b"%d" % now]))
    assert reader.first_offsets([0]) == {0: 3}
    assert reader.end_offsets([0]) == {0: 4}
    assert sqlite3.connect(location.address).execute("select count(*) from batches").fetchone() == (1,)
    appender.close()
    reader.close()


def test_clients_are_kept_per_log(location: LogLocation) -> None:
    assert appender_for(location) is appender_for(replace(location))
    assert reader_for(location) is reader_for(location)
    other = SYSTEM.create(replace(location, address=location.address + "2", log_id=""))
    assert appender_for(other) is not appender_for(location)


def test_a_log_with_a_view_is_not_used(location: LogLocation) -> None:
    with sqlite3.connect(location.address) as database:
        database.execute("alter table ends rename to others")
        database.execute(
            "create view ends(bucket, next, trimmed) as "
            "with recursive n(i) as (select 1 union all select i + 1 from n) "
            "select i, i, 0 from n where i < 0"
        )
    database.close()
    with pytest.raises(Corrupt, match="'ends', which does not belong"):
        SYSTEM.reader(location).end_offsets()


def test_a_log_on_a_read_only_disk_is_read_and_one_that_cannot_be_says_why(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SYSTEM.appender(location)) as appender:
        appender.append(0, records([b"a", b"b"]))
        with monkeypatch.context() as read_only:
            read_only.setattr(embedded_file, "_is_read_only", lambda _: True)
            with pytest.raises(Unavailable, match="on a read-only disk, and its newest records are in"):
                SYSTEM.reader(location)
    monkeypatch.setattr(embedded_file, "_is_read_only", lambda _: True)
    before = sorted(Path(location.address).parent.iterdir())
    with closing(SYSTEM.reader(location)) as reader, closing(SYSTEM.appender(location)) as appender:
        assert reader.read(0, 0).column("value").to_pylist() == [b"a", b"b"]
        with pytest.raises(Unavailable, match="readonly database"):
            appender.append(0, records([b"c"]))
        assert sorted(Path(location.address).parent.iterdir()) == before
        monkeypatch.setattr(embedded_file, "_is_read_only", lambda _: False)  # another machine writes
        with closing(SYSTEM.appender(location)) as other:
            other.append(0, records([b"c"]))
            assert reader.is_stale, "the next client sees the change"
