"""Files of the embedded log: the old layout, upgrades beside open handles, damage, retention, sudden death."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, OffsetExpired, UnsupportedFeature
from lakelog.io.machine import machine_identity
from lakelog.logstore.base import LogLocation, Records
from lakelog.logstore.embedded import appender as appending
from lakelog.logstore.embedded import layout
from lakelog.logstore.embedded.system import EmbeddedLogSystem
from log_days import DAY, LogDays
from log_records import append, everything, records

SYSTEM = EmbeddedLogSystem()

OLD = """
create table meta (key text primary key, value text not null) without rowid;
create table ends (bucket integer primary key, next integer not null, trimmed integer not null);
create table records (bucket integer, "offset" integer, ts integer not null, key blob, value blob, header blob,
    primary key (bucket, "offset")) without rowid;
"""
OLD_INSERT = "insert into records values (?, ?, ?, ?, ?, ?)"
OLD_READ = 'select "offset", value from records where bucket = ? and "offset" >= ? order by "offset" limit 100'
HEADER = b"1|d|w|0|a"


def old_row(offset: int, time_ms: int = 1_000) -> tuple[int, int, int, bytes, bytes, bytes]:
    return 0, offset, time_ms + offset, b"key of %d" % offset, b"%d" % offset, HEADER


@pytest.fixture
def old(tmp_path: Path) -> LogLocation:
    """A log of lakelog 0.1 with ten records in bucket 0, of which the first two have expired."""
    path = tmp_path / "log.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.executescript(OLD)
        meta = {"log_id": "an id", "machine": machine_identity(), "buckets": "2"}
        database.executemany("insert into meta values (?, ?)", meta.items())
        database.executemany("insert into ends values (?, ?, ?)", [(0, 10, 2), (1, 0, 0)])
        database.executemany(OLD_INSERT, [old_row(n) for n in range(2, 10)])
        database.commit()
    return LogLocation("embedded", str(path), "t", 2, log_id="an id", machine=machine_identity())


@pytest.fixture
def location(tmp_path: Path) -> LogLocation:
    return SYSTEM.create(LogLocation("embedded", str(tmp_path / "t" / "log.sqlite"), "t", 2))


@pytest.fixture
def odd_database(location: LogLocation) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(location.address, isolation_level=None)) as database:
        yield database


def test_an_old_file_is_read_and_carried_on(old: LogLocation) -> None:
    reader, appender = SYSTEM.reader(old), SYSTEM.appender(old)
    with closing(reader), closing(appender):
        assert everything(reader) == [b"%d" % n for n in range(2, 10)]
        assert append(appender, [b"10", b"11", b"12"]) == [10, 11, 12]
        wanted = [b"%d" % n for n in range(2, 13)]
        assert everything(reader) == wanted
        for start in range(2, 13):
            for end in range(start, 14):
                found = reader.read(0, start, end)
                assert found.column("value").to_pylist() == wanted[start - 2 : end - 2]
                assert found.column("key").to_pylist() == [b"key of " + v for v in wanted[start - 2 : end - 2]]
        assert [len(reader.read(0, 2, max_records=n)) for n in (1, 7, 8, 9, 50)] == [1, 7, 8, 9, 11]
        with pytest.raises(OffsetExpired):
            reader.read(0, 1)
        assert reader.offsets_at(0) == {0: 2, 1: 0}
        assert reader.offsets_at(1_005) == {0: 5, 1: 0}
        assert reader.offsets_at(1_010)[0] == 10
        assert reader.read(0, 9, 11).column("timestamp_ms").to_pylist()[0] == 1_009


def test_an_upgrade_is_done_once_and_both_layouts_expire(old: LogLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    SYSTEM.check(old)
    monkeypatch.setattr(appending, "_TRIM_EVERY", 1)
    days = LogDays(monkeypatch)
    with closing(SYSTEM.appender(replace(old, retention_ms=1_000))) as appender, closing(SYSTEM.reader(old)) as reader:
        for now, first in ((2_005, 5), (2_500, 10), (9_000, 12)):
            days.pass_to_ms(now)
            append(appender, [b"x"])
            assert reader.first_offsets()[0] == first
            assert reader.read(0, first).column("offset")[0].as_py() == first
    with closing(sqlite3.connect(old.address)) as database:
        counts = [database.execute(f"select count(*) from {t}").fetchone()[0] for t in ("records_1", "batches")]
    assert counts == [0, 1]


def test_a_process_of_the_old_version_that_has_the_file_open_gets_an_error_and_loses_nothing(old: LogLocation) -> None:
    with closing(sqlite3.connect(old.address, isolation_level=None)) as theirs:
        assert len(theirs.execute(OLD_READ, (0, 2)).fetchall()) == 8
        theirs.execute("begin immediate")
        theirs.execute(OLD_INSERT, old_row(10))
        theirs.execute("update ends set next = 11 where bucket = 0")
        theirs.execute("commit")
        with closing(SYSTEM.appender(old)) as appender, closing(SYSTEM.reader(old)) as reader:
            assert append(appender, [b"11"]) == [11]
            for statement, values in ((OLD_INSERT, old_row(12)), (OLD_READ, (0, 2))):
                with pytest.raises(sqlite3.OperationalError, match="no such table: records"):
                    theirs.execute(statement, values)
            assert everything(reader) == [b"%d" % n for n in range(2, 12)]


def test_the_old_version_refuses_a_new_file_and_says_why(location: LogLocation) -> None:
    """Its check when it opens a file, as it was: any view is refused by its name."""
    with closing(sqlite3.connect(location.address)) as theirs:
        odd = theirs.execute("select name from sqlite_schema where type in ('view', 'trigger')").fetchone()
    assert odd == ("layout 2: upgrade lakelog",)


def upgrade_and_die(old: LogLocation) -> None:
    """Dies with all statements of the upgrade done, and before its commit."""
    with closing(sqlite3.connect(old.address, isolation_level=None)) as database:
        database.execute("begin immediate")
        database.execute("alter table records rename to records_1")
        for statement in layout._BATCHES.split(";\n")[:-1]:
            database.execute(statement)
        os.kill(os.getpid(), signal.SIGKILL)


def append_until_killed(location: LogLocation, told: multiprocessing.connection.Connection) -> None:
    appender = SYSTEM.appender(location)
    for number in range(10**9):
        append(appender, [b"%d" % number] * 500, number % 2)
        told.send(number)


def test_an_upgrade_that_dies_half_way_leaves_the_old_layout(old: LogLocation) -> None:
    process = multiprocessing.get_context("spawn").Process(target=upgrade_and_die, args=(old,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with closing(sqlite3.connect(old.address)) as theirs:
        assert len(theirs.execute(OLD_READ, (0, 2)).fetchall()) == 8
    with closing(SYSTEM.reader(old)) as reader:
        assert everything(reader) == [b"%d" % n for n in range(2, 10)]


@pytest.mark.parametrize("appends", [1, 7, 40])
def test_a_killed_writer_leaves_whole_appends_and_all_acknowledged_ones(location: LogLocation, appends: int) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=append_until_killed, args=(location, theirs))
    process.start()
    acknowledged = 0
    while acknowledged < appends:
        acknowledged = ours.recv() + 1
    process.kill()
    process.join()
    while ours.poll():
        acknowledged = ours.recv() + 1
    with closing(SYSTEM.reader(location)) as reader:
        values = [everything(reader, bucket) for bucket in (0, 1)]
        ends = reader.end_offsets()
    found = sorted({int(v) for part in values for v in part if v is not None})
    assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
    for bucket, part in enumerate(values):
        assert part == [b"%d" % n for n in found if n % 2 == bucket for _ in range(500)]
        assert ends[bucket] == len(part)
    with closing(SYSTEM.appender(location)) as appender:
        assert append(appender, [b"next"])[0] == ends[0]


def test_a_damaged_batch_is_an_error_and_never_other_records(
    location: LogLocation, odd_database: sqlite3.Connection
) -> None:
    with closing(SYSTEM.appender(location)) as appender:
        append(appender, [b"%d" % n for n in range(300)])
    (data,) = odd_database.execute("select data from batches").fetchone()
    empty = b""
    for torn in (data[:-1], data[: len(data) // 2], data[:20], empty, data[:40] + b"\0" + data[41:], data + data):
        odd_database.execute("update batches set data = ?", (torn,))
        with closing(SYSTEM.reader(location)) as reader, pytest.raises(Corrupt, match="damaged"):
            reader.read(0, 0)
    odd_database.execute("update batches set data = ?, count = 299", (data,))
    with closing(SYSTEM.reader(location)) as reader, pytest.raises(Corrupt, match="should have 299"):
        reader.read(0, 0)


def test_a_layout_of_the_future_is_refused(location: LogLocation, odd_database: sqlite3.Connection) -> None:
    odd_database.execute("update meta set value = '3' where key = 'layout'")
    with pytest.raises(UnsupportedFeature, match="upgrade lakelog"):
        SYSTEM.reader(location)


def test_reads_that_cut_batches_give_each_record_once(location: LogLocation) -> None:
    with closing(SYSTEM.appender(location)) as appender, closing(SYSTEM.reader(location)) as reader:
        for number in range(20):
            append(appender, [b"%d/%d" % (number, n) for n in range(number * 13)])
        end = reader.end_offsets()[0]
        for step in (1, 7, 100, 999, end):
            values = [v for part in reader.chunks(0, 0, end, step) for v in part.column("value").to_pylist()]
            assert values == everything(reader)
        # positions of two readers in turn, and backwards
        assert reader.read(0, 30, 60).column("offset").to_pylist() == list(range(30, 60))
        assert reader.read(1, 0).num_rows == 0
        assert reader.read(0, 60, 90).column("offset").to_pylist() == list(range(60, 90))
        assert reader.read(0, 10, 20).column("offset").to_pylist() == list(range(10, 20))


def test_default_retention_keeps_what_is_young_and_what_is_needed(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = LogDays(monkeypatch)
    with closing(SYSTEM.appender(location)) as appender, closing(SYSTEM.reader(location)) as reader:
        for day in range(10):
            days.pass_to(day)
            append(appender, [b"a", b"b"])
        days.pass_to(10)
        SYSTEM.expire(location, {})
        assert reader.first_offsets()[0] == 0
        SYSTEM.expire(location, {0: 3})  # the batch of the needed record stays
        assert reader.first_offsets()[0] == 2
        SYSTEM.expire(replace(location, retention_ms=9 * DAY), {})  # by age alone
        assert reader.first_offsets()[0] == 2
        SYSTEM.expire(location, {0: 20})
        assert reader.first_offsets()[0] == 6  # three days have passed the seven
        assert len(everything(reader)) == 14


def test_a_row_of_many_takes_few_bytes_on_disk(location: LogLocation) -> None:
    count = 50_000
    values = [b'{"before":null,"after":{"id":%d,"name":"name %d"},"op":"c"}' % (n * 7919, n) for n in range(count)]
    keys = pa.array([b'{"id":%d}' % (n * 7919) for n in range(count)], pa.large_binary())
    with closing(SYSTEM.appender(location)) as appender:
        appender.append(0, Records(keys, pa.array(values, pa.large_binary()), HEADER))
    assert os.path.getsize(location.address) < 30 * count  # without its WAL, which the close has moved into it


def test_records_are_those_of_the_batches(location: LogLocation) -> None:
    """Begin, keyed rows, headers of their own: what one append wrote is read as it was, across batches."""
    with closing(SYSTEM.appender(location)) as appender, closing(SYSTEM.reader(location)) as reader:
        made = records([None, *[b"%d" % n for n in range(200)]], [b"1|b|w|0|a"] + [HEADER] * 200)
        appender.append_all([(0, made), (1, made)])
        for bucket in (0, 1):
            found = reader.read(bucket, 0)
            assert found.column("value").to_pylist() == made.values.to_pylist()
            assert found.column("header").to_pylist() == made.headers
