"""The log in files under attack: storage that moves between two requests, answers that mislead, files made to harm."""

from __future__ import annotations

import struct
from dataclasses import replace
from zlib import crc32

import orjson
import pytest

from faults import FAIL_AFTER, FAIL_BEFORE, LATE, LOST, LOST_REQUEST, READS, FaultPlan, FaultyFileIO
from lakelog.errors import CommitUnknown, Corrupt, LakelogError, NotFound, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.logstore import topic_identity as identity
from lakelog.logstore.base import LogLocation
from lakelog.logstore.files import chain
from lakelog.logstore.files.chain import SegmentChain
from lakelog.logstore.files.reader import FilesReader
from lakelog.logstore.files.system import FilesLogSystem
from lakelog.logstore.record_batch.batch import RecordBatch, parse_batches
from lakelog.logstore.record_batch.encoder import encode
from log_records import append, everything, records

SYSTEM = FilesLogSystem()


@pytest.fixture
def location() -> LogLocation:
    return SYSTEM.create(LogLocation("files", "memory/t/log", "t", 2, storage=MemoryFileIO(new_uuid())))


@pytest.fixture(autouse=True)
def deleted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expired segments are deleted without delay, and readers do not count on one."""
    monkeypatch.setattr(chain, "DELETE_AFTER_MS", 0)
    monkeypatch.setattr(chain, "_TRUSTED_S", 0.0)


def expire(location: LogLocation) -> None:
    """Deletes all segments but the newest one."""
    SegmentChain(location).expire(now_ms() + 60_000)


def hint_of(location: LogLocation) -> str:
    return f"{location.address}/{location.log_id}/hint"


def storage(location: LogLocation) -> FileIO:
    assert location.storage is not None
    return location.storage


@pytest.mark.parametrize("hint", ["deleted", "damaged", "unavailable"])
def test_a_new_client_of_an_expired_log_knows_its_end_at_once_without_a_hint(location: LogLocation, hint: str) -> None:
    writer = SYSTEM.appender(location)
    for number in range(5):
        append(writer, [b"%d" % number])
    expire(location)
    append(writer, [b"last"])
    io = storage(location)
    if hint == "deleted":
        io.delete(hint_of(location))
    elif hint == "damaged":
        io.write(hint_of(location), b"{")
    else:  # the second read of a client, behind log.json
        io = FaultyFileIO(io, FaultPlan({2: FAIL_BEFORE}, READS))
    here = replace(location, storage=io)
    assert FilesReader(here).end_offsets()[0] == 6
    assert SYSTEM.appender(location).end_offsets()[0] == 6
    assert FilesReader(location).read(0, 5, 6).column("value").to_pylist() == [b"last"]


def test_a_read_up_to_an_end_is_complete_after_a_read_that_ended_inside_a_batch(location: LogLocation) -> None:
    writer, reader = SYSTEM.appender(location), FilesReader(location)
    append(writer, [b"%d" % number for number in range(10)])
    append(writer, [b"%d" % number for number in range(10, 20)])
    assert reader.read(0, 0, 5).num_rows == 5
    assert reader.read(0, 5, 18).column("value").to_pylist() == [b"%d" % number for number in range(5, 18)]
    assert reader.read(0, 18).num_rows == 2
    assert [reader.read(0, start, 20, 7).num_rows for start in (0, 7, 14)] == [7, 7, 6]


@pytest.mark.parametrize("answer", ["lost", "taken"])
def test_an_append_that_storage_never_answers_is_unavailable_soon(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """As a store that is full, or a dangling symbolic link of the name of the next segment."""
    appender = SYSTEM.appender(location)
    append(appender, [b"a"])
    monkeypatch.setattr("lakelog.io.clock.sleep", lambda seconds: None)

    def create(io: MemoryFileIO, path: str, data: bytes) -> bool:
        if answer == "lost":
            raise CommitUnknown("507 Insufficient Storage")
        return False

    with monkeypatch.context() as broken, pytest.raises(Unavailable, match=r"segments/0+1"):
        broken.setattr(MemoryFileIO, "create", create)
        append(appender, [b"b"])
    assert append(appender, [b"c"]) == [1]
    assert everything(FilesReader(location)) == [b"a", b"c"]


def test_a_segment_that_was_created_by_a_request_that_was_sent_twice_is_there_once(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy sends a put again, and returns the second answer: it exists."""
    appender, create = SYSTEM.appender(location), MemoryFileIO.create
    with monkeypatch.context() as proxy:
        proxy.setattr(MemoryFileIO, "create", lambda *request: create(*request) and create(*request))
        assert append(appender, [b"a"]) == [0]
    assert append(appender, [b"b"]) == [1]
    assert everything(FilesReader(location)) == [b"a", b"b"]


@pytest.mark.parametrize("kind", [LOST, LOST_REQUEST, LATE, FAIL_BEFORE, FAIL_AFTER])
def test_an_append_is_acknowledged_although_the_expiry_after_it_has_no_answer(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("lakelog.logstore.files.appender._EXPIRE_EVERY", 1)
    append(SYSTEM.appender(location), [b"a", b"b"])
    plan = FaultPlan({2: kind}, frozenset({"create"}))
    faulty = replace(location, retention_ms=-1, storage=FaultyFileIO(storage(location), plan))
    appender = SYSTEM.appender(faulty)
    assert append(appender, [b"c"]) == [2] and plan.hit and "/floors/" in plan.calls[1].path
    assert append(appender, [b"d"]) == [3]
    plan.arrive()
    assert everything(FilesReader(location)) in ([b"c", b"d"], [b"d"])


def test_a_log_whose_writers_are_short_lived_expires(location: LogLocation) -> None:
    for number in range(300):
        append(SYSTEM.appender(replace(location, retention_ms=-1)), [b"%d" % number])
    assert FilesReader(location).first_offsets()[0] >= 250


def footer(**changes: object) -> dict[str, object]:
    """A footer of one record in bucket 0, and what is changed in it."""
    return {"token": "t", "timestamp": 1, "ends": [1, 0], "parts": [[0, 0, 1, 0, len(BATCH)]], **changes}


BATCH = encode(records([b"a"]), 0)[0].to_bytes()


def parse(data: bytes) -> RecordBatch:
    return next(parse_batches(data))


HARMFUL = [
    (BATCH, footer(ends=[2**64 - 1, 0])),
    (BATCH, footer(ends=[-1, 0])),
    (BATCH, footer(ends=[5, 0])),
    (BATCH, footer(ends=[1e308, 0])),
    (BATCH, footer(timestamp=1e308, ends=["1", None])),
    (BATCH, footer(parts=[[0, 2**63, 1, 0, len(BATCH)]])),
    (BATCH, footer(parts=[[0, 0, 1, 10, -5]])),
    (BATCH, footer(parts=[[0, 0, 1, 0, len(BATCH)]] * 2)),
    (replace(parse(BATCH), payload=b"\x00").to_bytes(), None),
    (replace(parse(BATCH), attributes=7).to_bytes(), None),
    (replace(parse(BATCH), attributes=parse(BATCH).attributes | 0x20).to_bytes(), None),
    (encode(records([b"a"]), 0)[0].to_bytes() + b"more", footer(parts=[[0, 0, 1, 0, 2**40]])),
]


@pytest.mark.parametrize(("body", "changed"), HARMFUL, ids=range(len(HARMFUL)))
def test_a_segment_that_was_made_to_harm_is_an_error_that_names_it(
    location: LogLocation, body: bytes, changed: dict[str, object] | None
) -> None:
    text = orjson.dumps(changed or footer(parts=[[0, 0, 1, 0, len(body)]]))
    path = SegmentChain(location).path(0)
    storage(location).write(path, body + text + struct.pack("<II", len(text), crc32(text)) + b"LLS1")
    with pytest.raises(Corrupt, match=path):
        FilesReader(location).read(0, 0, 1)


@pytest.mark.parametrize("text", ["[]", '0, "floor": 9, "offsets": [9, 9]', '7, "floor": 0, "offsets": [0, 0]'])
def test_a_wrong_hint_is_no_more_than_slow(location: LogLocation, text: str) -> None:
    append(SYSTEM.appender(location), [b"a"])
    storage(location).write(hint_of(location), f'{{"newest": {text}}}'.encode())
    assert append(SYSTEM.appender(location), [b"b"]) == [1]
    assert everything(FilesReader(location)) == [b"a", b"b"]
    storage(location).delete(hint_of(location))
    assert everything(FilesReader(location)) == [b"a", b"b"]


@pytest.mark.parametrize("buckets", ["1e308", "[]", "-1"])
def test_a_damaged_identity_is_an_error(location: LogLocation, buckets: str) -> None:
    text = f'{{"layout": 1, "log_id": "{location.log_id}", "buckets": {buckets}}}'
    storage(location).write(f"{location.address}/log.json", text.encode())
    with pytest.raises(LakelogError, match=location.address):
        FilesReader(location)


def test_open_clients_notice_an_older_copy_of_their_log(location: LogLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = SYSTEM.appender(location), FilesReader(location)
    append(writer, [b"a"])
    append(writer, [b"b"])
    assert everything(reader) == [b"a", b"b"]
    storage(location).delete(SegmentChain(location).path(1))
    monkeypatch.setattr(identity, "monotonic_s", lambda: monotonic_s() + 2 * identity.CHECK_EVERY_S)
    with pytest.raises(NotFound, match="an older copy replaced it"):
        reader.end_offsets()
    with pytest.raises(NotFound, match="an older copy replaced it"):
        append(writer, [b"c"])
    assert reader.is_stale and writer.is_stale
    assert append(SYSTEM.appender(location), [b"c"]) == [1]


@pytest.mark.parametrize("kind", [LOST, LOST_REQUEST, LATE])
def test_a_log_creation_without_an_answer_succeeded_or_can_be_retried(kind: str) -> None:
    plan = FaultPlan({1: kind}, frozenset({"create"}))
    wanted = LogLocation("files", "memory/t/log", "t", 2, storage=FaultyFileIO(MemoryFileIO(new_uuid()), plan))
    try:
        made = SYSTEM.create(wanted)
    except Unavailable:
        plan.arrive()
        made = SYSTEM.create(wanted)
    assert append(SYSTEM.appender(made), [b"a"]) == [0]


def test_an_append_that_expires_before_its_writer_goes_on_is_not_appended_again(
    location: LogLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, rival, create = SYSTEM.appender(location), SYSTEM.appender(location), MemoryFileIO.create

    def suspended(io: MemoryFileIO, path: str, data: bytes) -> bool:
        done = create(io, path, data)
        monkeypatch.undo()
        append(rival, [b"rival"])
        expire(location)
        return done

    monkeypatch.setattr(MemoryFileIO, "create", suspended)
    with pytest.raises(Unavailable, match=r"segments/0+' expired"):
        append(writer, [b"once"])
    assert append(writer, [b"next"]) == [2]
    assert everything(FilesReader(location)) == [b"rival", b"next"]


def test_a_new_reader_waits_for_two_buckets_and_reads_the_one_that_its_hint_does_not_cover(
    location: LogLocation,
) -> None:
    """The position is that of another reader. The hint names segment 0, in which only the other bucket has records."""
    writer = SYSTEM.appender(location)
    append(writer, [b"of the other"], 1)
    append(writer, [b"a", b"b"])
    reader = FilesReader(location)
    assert reader._chain.known == 0
    reader.wait({0: 2, 1: 0}, 0)
    assert reader.read(0, 2).num_rows == 0
    assert reader.read(1, 0).num_rows == 1


@pytest.mark.parametrize("asked", ["end", "read"])
def test_a_client_whose_segments_all_have_expired_knows_the_end(location: LogLocation, asked: str) -> None:
    writer, reader = SYSTEM.appender(location), FilesReader(location)
    append(writer, [b"a"])
    assert reader.end_offsets()[0] == 1
    for value in (b"b", b"c"):
        append(writer, [value])
    expire(location)
    assert reader.end_offsets()[0] == 3 if asked == "end" else reader.read(0, 2).num_rows == 1
