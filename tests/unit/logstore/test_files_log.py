"""The log in files: rivals, lost answers, suspended clients, expiry, damage, and the number of its requests."""

from __future__ import annotations

import multiprocessing
import os
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from faults import CHANGES, READS, FaultPlan, FaultyFileIO
from lakelog import connect
from lakelog.errors import Corrupt, LakelogError, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.storage.local import LocalFileIO
from lakelog.logstore.base import LogAppender, LogLocation, LogReader
from lakelog.logstore.files import chain
from lakelog.logstore.files.appender import FilesAppender
from lakelog.logstore.files.chain import SegmentChain
from lakelog.logstore.files.reader import FilesReader
from lakelog.logstore.files.system import FilesLogSystem
from log_records import append, everything, records

SYSTEM = FilesLogSystem()


@pytest.fixture
def location(tmp_path: Path) -> LogLocation:
    return SYSTEM.create(LogLocation("files", str(tmp_path / "t" / "lakelog" / "log"), "t", 2))


def append_many(location: LogLocation, name: bytes) -> None:
    appender = SYSTEM.appender(location)
    for number in range(25):
        append(appender, [b"%s %d" % (name, number), b"%s %d'" % (name, number)])


@pytest.mark.slow
def test_four_processes_append_to_one_bucket_without_losing_a_record(location: LogLocation) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(location, name)) for name in (b"a", b"b", b"c", b"d")]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    found = everything(SYSTEM.reader(location))
    assert [process.exitcode for process in processes] == [0] * 4
    for name in (b"a", b"b", b"c", b"d"):
        wanted = [b"%s %d%s" % (name, number, end) for number in range(25) for end in (b"", b"'")]
        assert [value for value in found if value is not None and value.startswith(name)] == wanted
    assert len(found) == 200


def test_records_have_the_time_at_which_their_segment_is_made(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    monkeypatch.setattr("lakelog.logstore.files.appender.now_ms", lambda: 1000)
    appender.append(0, records([b"a"]))
    monkeypatch.setattr("lakelog.logstore.files.appender.now_ms", lambda: 2000)
    appender.flush()
    assert reader.read(0, 0).column("timestamp_ms").to_pylist() == [2000]
    assert (reader.offsets_at(2000), reader.offsets_at(2001)) == ({0: 0, 1: 0}, {0: 1, 1: 0})


def expire(location: LogLocation) -> None:
    """Expires all segments but the newest one."""
    SegmentChain(location).expire(now_ms() + 60_000)


@pytest.fixture
def deleted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expired segments are deleted without delay, and readers do not count on one."""
    monkeypatch.setattr(chain, "DELETE_AFTER_MS", 0)
    monkeypatch.setattr(chain, "_TRUSTED_S", 0.0)


def segments(location: LogLocation) -> list[int]:
    path = SegmentChain(location).path(0).rpartition("/")[0]
    return sorted(int(file.name) for file in LocalFileIO().list(path))


def test_expired_segments_are_deleted_when_no_reader_relies_on_them_any_more(location: LogLocation) -> None:
    writer, reader = SYSTEM.appender(location), FilesReader(location)
    for number in range(4):
        append(writer, [b"%d" % number])
    assert everything(reader) == [b"0", b"1", b"2", b"3"]
    expire(location)
    assert segments(location) == [0, 1, 2, 3]
    assert everything(SYSTEM.reader(location)) == [b"3"]
    append(writer, [b"4"])
    expire(location)
    assert segments(location) == [0, 1, 2, 3, 4]
    floor = Path(SegmentChain(location).path(0)).parents[1] / "floors" / f"{0:020}"
    long_ago_s = now_ms() / 1000 - chain.DELETE_AFTER_MS / 1000 - 1
    os.utime(floor, (long_ago_s, long_ago_s))
    expire(location)
    assert segments(location) == [3, 4], "the second move of the floor is recent"
    assert everything(SYSTEM.reader(location)) == [b"4"]


def test_expiry_after_each_append_lists_nothing_each_time(location: LogLocation) -> None:
    plan, writer = FaultPlan(counted=READS | {"list"}), SYSTEM.appender(location)
    expiring = SegmentChain(replace(location, storage=FaultyFileIO(LocalFileIO(), plan)))
    for number in range(4):
        append(writer, [b"%d" % number])
        expiring.expire(now_ms() + 60_000)
    assert expiring.floor.number == 3
    assert len([call for call in plan.calls if call.name == "list" and "/floors" in call.path]) == 1


@pytest.mark.parametrize("clock", ["monotonic_s", "now_ms"])
def test_a_reader_looks_at_the_floor_again_after_it_was_suspended(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    """The other clock may stand still while a machine is suspended; that of the day may go back."""
    plan, looked = FaultPlan(counted=READS), list[bool]()
    reader, writer = (
        SYSTEM.reader(replace(location, storage=FaultyFileIO(LocalFileIO(), plan))),
        SYSTEM.appender(location),
    )
    for position, passed_s in enumerate((0, 0, 3, 3, -60 if clock == "now_ms" else 9)):
        append(writer, [b"a"])
        by, now = (passed_s, monotonic_s) if clock == "monotonic_s" else (passed_s * 1000, now_ms)
        monkeypatch.setattr(f"lakelog.io.clock.{clock}", lambda by=by, now=now: now() + by)
        plan.calls.clear()
        reader.wait({0: position}, 1)
        assert reader.read(0, position).num_rows == 1
        looked.append(any("/floors/" in call.path for call in plan.calls))
    assert looked[1:] == [False, True, False, True]


def test_a_writer_that_others_overtake_at_once_tries_again_or_says_that_it_does_not_know(location: LogLocation) -> None:
    quick, others = SYSTEM.appender(location), SYSTEM.appender(location)
    append(quick, [b"a"])
    append(others, [b"b"])
    assert append(quick, [b"c"]) == [2]
    for number in range(5):
        append(others, [b"%d" % number])
    expire(location)
    with pytest.raises(Unavailable, match="expired during an append, which may have created it"):
        append(quick, [b"d"])
    assert everything(SYSTEM.reader(location)) == [b"4"]
    assert append(quick, [b"e"]) == [8]
    assert everything(SYSTEM.reader(location)) == [b"4", b"e"]


def test_needed_records_do_not_expire(location: LogLocation) -> None:
    writer = SYSTEM.appender(location)
    for number in range(4):
        append(writer, [b"%d" % number], bucket=number % 2)
    SegmentChain(location).expire(now_ms() + 60_000, {0: 1})
    assert SYSTEM.reader(location).first_offsets() == {0: 1, 1: 0}
    SegmentChain(location).expire(now_ms() + 60_000, {0: 2, 1: 1})
    assert SYSTEM.reader(location).first_offsets() == {0: 2, 1: 1}


@pytest.mark.parametrize("hint", ["kept", "deleted", "damaged"])
def test_a_new_client_finds_the_end_with_few_requests(location: LogLocation, hint: str) -> None:
    writer = SYSTEM.appender(location)
    for number in range(150):
        append(writer, [b"%d" % number])
    path = Path(SegmentChain(location).path(0)).parents[1] / "hint"
    if hint != "kept":
        path.unlink()
    if hint == "damaged":
        path.write_bytes(b"{")
    plan = FaultPlan(counted=READS)
    reader = SYSTEM.reader(replace(location, storage=FaultyFileIO(LocalFileIO(), plan)))
    assert reader.end_offsets() == {0: 150, 1: 0}
    assert "list" not in {call.name for call in plan.calls}
    assert len(plan.calls) <= 24


def test_a_micro_batch_and_its_reader_make_few_requests_and_list_nothing(location: LogLocation) -> None:
    written, read = FaultPlan(counted=CHANGES | READS), FaultPlan(counted=CHANGES | READS)
    writer = SYSTEM.appender(replace(location, storage=FaultyFileIO(LocalFileIO(), written)))
    reader = SYSTEM.reader(replace(location, storage=FaultyFileIO(LocalFileIO(), read)))
    append(writer, [b"a"])
    end = reader.end_offsets()[0]
    assert reader.read(0, 0).num_rows == 1
    written.calls.clear()
    read.calls.clear()
    append(writer, [b"b"])
    assert [call.name for call in written.calls] == ["create", "read"], "the segment, and the floor after it"
    reader.wait({0: end}, 1)
    assert reader.read(0, end).column("value").to_pylist() == [b"b"]
    kinds = [call.path.rsplit("/", 2)[-2] + " " + call.name for call in read.calls]
    assert kinds == ["segments open_input"], "it has read the floor a moment ago"
    assert "list" not in {call.name for call in (*written.calls, *read.calls)}
    read.calls.clear()
    reader.end_offsets()
    assert [call.name for call in read.calls] == ["size"], "an idle reader asks for the next segment only"


def test_a_damaged_segment_is_an_error_that_names_it(location: LogLocation) -> None:
    append(SYSTEM.appender(location), [b"x" * 100, b"y"])
    path, dice = Path(SegmentChain(location).path(0)), random.Random(3)
    whole = path.read_bytes()
    for _ in range(200):
        data = bytearray(whole[: dice.choice([len(whole), dice.randrange(len(whole))])])
        for _ in range(dice.randrange(1, 4)):
            if data:
                data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        try:
            found = FilesReader(location).read(0, 0, 2)
        except Corrupt as why:
            assert str(path) in str(why)
        else:
            assert data == whole and found.num_rows == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"number": 1, "offsets": [1]}', '{"number": -1, "offsets": [0, 0]}'])
def test_a_damaged_floor_is_an_error_that_names_it(location: LogLocation, text: str) -> None:
    append(SYSTEM.appender(location), [b"x"])
    path = Path(SegmentChain(location).path(0)).parents[1] / "floors" / f"{0:020}"
    LocalFileIO().write(str(path), text.encode())
    with pytest.raises(Corrupt, match=str(path)):
        FilesReader(location).first_offsets()


def test_a_large_append_is_written_before_its_flush(location: LogLocation) -> None:
    appender: LogAppender = FilesAppender(location)
    dice = random.Random(1)
    pending = [appender.append(0, records([dice.randbytes(900_000) for _ in range(4)])) for _ in range(8)]
    reader: LogReader = FilesReader(location)
    assert reader.end_offsets()[0] > 0
    appender.flush()
    assert [o for p in pending for o in p.offsets().to_pylist()] == list(range(32))
    assert sum(part.num_rows for part in reader.chunks(0, 0, 32, max_records=5)) == 32


def test_a_table_is_renamed_with_its_log(tmp_path: Path) -> None:
    lake = connect(str(tmp_path))
    options = {"log-store.enabled": True, "log-store.type": "files"}
    old = lake.create_table("db.old", {"id": "bigint", "v": "string"}, primary_key="id", options=options)
    lake.write(pa.table({"id": [1], "v": ["a"]}), "db.old")
    lake.rename_table("db.old", "db.new")
    lake.write(pa.table({"id": [2], "v": ["b"]}), "db.new")
    rows = [row for part in lake.table("db.new").tail("earliest", stop="latest") for row in part.to_pylist()]
    assert sorted(row["id"] for row in rows) == [1, 2]
    with pytest.raises(LakelogError), old.writer() as writer:
        writer.write(pa.table({"id": [3], "v": ["c"]}))
    assert lake.table("db.new").scan().count() == 2


def test_it_has_no_topic_to_adopt(location: LogLocation) -> None:
    with pytest.raises(LakelogError, match=r"log-store\.address"):
        SYSTEM.create(location, adopt=True)
