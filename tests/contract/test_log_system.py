"""What every log system does, whatever it is made of: one suite for all that are registered."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.errors import AlreadyExists, LakelogError, NotFound, OffsetExpired
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogLocation, LogReader, LogSystem, Records
from lakelog.logstore.systems import embedded
from lakelog.service.kafka_broker import KafkaBroker

NewLocation = Callable[..., LogLocation]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.kafka] if name == "kafka" else []) for name in sorted(LOG_SYSTEMS)]
)
def new_location(request: pytest.FixtureRequest, tmp_path: Path) -> NewLocation:
    """Locations of logs that do not exist yet."""
    name = request.param
    broker = request.getfixturevalue("broker") if name == "kafka" else None

    def make(buckets: int = 2, **more: object) -> LogLocation:
        topic = f"t-{uuid.uuid4()}"
        address = broker.bootstrap if broker else str(tmp_path / topic / "log.sqlite")
        return replace(LogLocation(name, address, topic, buckets), **more)

    return make


@pytest.fixture
def location(new_location: NewLocation) -> LogLocation:
    return LOG_SYSTEMS.create(new_location().system).create(new_location())


@pytest.fixture
def system(location: LogLocation) -> LogSystem:
    return LOG_SYSTEMS.create(location.system)


@pytest.fixture
def appender(system: LogSystem, location: LogLocation) -> Iterator[LogAppender]:
    opened = system.appender(location)
    yield opened
    opened.close()


@pytest.fixture
def reader(system: LogSystem, location: LogLocation) -> Iterator[LogReader]:
    opened = system.reader(location)
    yield opened
    opened.close()


def records(values: list[bytes | None], headers: bytes | list[bytes] = b"1|d|w|0|a") -> Records:
    keys = [None if v is None else b"key of " + v for v in values]
    return Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), headers)


def append(appender: LogAppender, values: list[bytes | None], bucket: int = 0) -> list[int]:
    pending = appender.append(bucket, records(values))
    appender.flush()
    return pending.offsets().to_pylist()


def everything(reader: LogReader, bucket: int = 0) -> list[bytes | None]:
    return reader.read(bucket, 0, reader.end_offsets([bucket])[bucket]).column("value").to_pylist()


def test_what_is_appended_is_read_as_it_was(appender: LogAppender, reader: LogReader) -> None:
    values = [b"", b"\x00\xff", "é😀".encode(), None, b"x" * 100_000]
    offsets = append(appender, values)
    found = reader.read(0, offsets[0], offsets[-1] + 1)
    assert found.schema == RECORDS_SCHEMA
    assert found.column("value").to_pylist() == values
    assert found.column("key").to_pylist() == [None if v is None else b"key of " + v for v in values]
    assert found.column("offset").to_pylist() == offsets
    assert set(found.column("header").to_pylist()) == {b"1|d|w|0|a"}
    assert abs(found.column("timestamp_ms")[0].as_py() - found.column("timestamp_ms")[-1].as_py()) < 60_000


def test_every_record_may_have_a_header_of_its_own(appender: LogAppender, reader: LogReader) -> None:
    pending = appender.append(1, records([b"a", b"b"], [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"]))
    appender.flush()
    first, last = pending.offsets().to_pylist()
    assert reader.read(1, first, last + 1).column("header").to_pylist() == [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"]


def test_offsets_grow_and_go_on_where_the_log_ended(appender: LogAppender, reader: LogReader) -> None:
    first = append(appender, [b"a", b"b", b"c"])
    assert reader.end_offsets([0])[0] == first[-1] + 1
    second = append(appender, [b"d"])
    assert sorted({*first, *second}) == first + second
    assert reader.end_offsets([0])[0] == second[-1] + 1


def test_several_appends_before_a_flush_keep_their_order(appender: LogAppender, reader: LogReader) -> None:
    pending = [appender.append(0, records([b"%d" % n, b"and"])) for n in range(20)]
    appender.flush()
    offsets = [o for p in pending for o in p.offsets().to_pylist()]
    assert offsets == sorted(offsets)
    assert everything(reader) == [v for n in range(20) for v in (b"%d" % n, b"and")]


def test_an_empty_append_has_no_offsets(appender: LogAppender, reader: LogReader) -> None:
    assert append(appender, []) == []
    assert reader.end_offsets() == {0: 0, 1: 0}


def test_buckets_know_nothing_of_each_other(appender: LogAppender, reader: LogReader) -> None:
    append(appender, [b"a"], 0)
    append(appender, [b"b", b"c"], 1)
    assert (everything(reader, 0), everything(reader, 1)) == ([b"a"], [b"b", b"c"])
    assert reader.end_offsets() == {0: 1, 1: 2}
    assert reader.end_offsets([1]) == {1: 2}
    assert reader.first_offsets() == {0: 0, 1: 0}


def test_a_read_may_begin_anywhere_again_and_again(appender: LogAppender, reader: LogReader) -> None:
    offsets = append(appender, [b"%d" % n for n in range(50)])
    for start, end in [(0, 50), (40, 50), (10, 20), (20, 30), (0, 1), (49, 50)]:
        found = reader.read(0, start, end)
        assert found.column("value").to_pylist() == [b"%d" % n for n in offsets[start:end]]


def test_an_empty_range_gives_nothing_at_once(appender: LogAppender, reader: LogReader) -> None:
    append(appender, [b"a", b"b"])
    assert reader.read(0, 1, 1).num_rows == 0
    assert reader.read(0, 2, 2).num_rows == 0
    assert reader.read(0, 2).num_rows == 0


def test_a_read_gives_at_most_so_many_records(appender: LogAppender, reader: LogReader) -> None:
    append(appender, [b"%d" % n for n in range(10)])
    position, got = 0, []
    while position < 10:
        found = reader.read(0, position, 10, max_records=4)
        assert 0 < found.num_rows <= 4
        got += found.column("value").to_pylist()
        position = found.column("offset")[-1].as_py() + 1
    assert got == [b"%d" % n for n in range(10)]


def test_a_read_with_an_end_waits_for_all_of_a_large_log(appender: LogAppender, reader: LogReader) -> None:
    append(appender, [b"%08d" % n for n in range(20_000)])
    found = reader.read(0, 0, 20_000)
    assert found.column("value").to_pylist() == [b"%08d" % n for n in range(20_000)]


def follow(reader: LogReader, positions: dict[int, int], count: int) -> list[bytes | None]:
    got: list[bytes | None] = []
    for _ in range(500):
        for bucket in positions:
            found = reader.read(bucket, positions[bucket])
            if found.num_rows:
                got += found.column("value").to_pylist()
                positions[bucket] = found.column("offset")[-1].as_py() + 1
        if len(got) >= count:
            return got
        reader.wait(positions, 0.1)
    raise AssertionError(f"only {len(got)} of {count} records came")


def test_a_wait_ends_when_another_client_appends(
    system: LogSystem, location: LogLocation, appender: LogAppender, reader: LogReader
) -> None:
    append(appender, [b"old"])
    writer = threading.Thread(target=append, args=(appender, [b"new"], 1))
    positions = {0: 1, 1: 0}
    reader.wait(positions, 0)
    writer.start()
    assert follow(reader, positions, 1) == [b"new"]
    writer.join()


def test_following_several_buckets_misses_nothing(appender: LogAppender, reader: LogReader) -> None:
    def write() -> None:
        for n in range(100):
            append(appender, [b"%d" % n], n % 2)

    writer = threading.Thread(target=write)
    writer.start()
    got = follow(reader, {0: 0, 1: 0}, 100)
    writer.join()
    assert sorted(got) == sorted(b"%d" % n for n in range(100))


def test_a_wait_without_news_ends_with_its_time(reader: LogReader) -> None:
    reader.wait({0: 0, 1: 0}, 0.05)


def test_the_records_after_a_time_are_found(appender: LogAppender, reader: LogReader) -> None:
    append(appender, [b"a", b"b"])
    time = reader.read(0, 0, 2).column("timestamp_ms").to_pylist()
    assert reader.offsets_at(0) == {0: 0, 1: 0}
    assert reader.offsets_at(time[0]) == {0: 0, 1: 0}
    assert reader.offsets_at(time[-1] + 1) == {0: 2, 1: 0}


def test_writers_at_the_same_time_lose_nothing(system: LogSystem, location: LogLocation, reader: LogReader) -> None:
    offsets: list[int] = []

    def write(name: int) -> None:
        own = system.appender(location)
        for n in range(20):
            offsets.extend(append(own, [b"%d-%d" % (name, n), b"%d-%d'" % (name, n)]))
        own.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = everything(reader)
    assert sorted(offsets) == list(range(120))
    for name in range(3):
        mine = [v for v in values if v is not None and v.startswith(b"%d-" % name)]
        assert mine == [v for n in range(20) for v in (b"%d-%d" % (name, n), b"%d-%d'" % (name, n))]


def test_an_empty_log_of_the_same_shape_is_adopted(system: LogSystem, location: LogLocation) -> None:
    again = system.create(replace(location, log_id="", machine=""))
    system.check(again)
    with pytest.raises(AlreadyExists, match="bucket"):
        system.create(replace(location, buckets=3))


def test_a_log_that_holds_records_is_not_taken_over(
    system: LogSystem, location: LogLocation, appender: LogAppender
) -> None:
    append(appender, [b"a"])
    with pytest.raises(AlreadyExists, match=r"log-store\.(topic|address)"):
        system.create(location)


def test_a_dropped_log_is_gone_and_may_be_dropped_again(system: LogSystem, location: LogLocation) -> None:
    system.check(location)
    system.drop(location)
    system.drop(location)
    with pytest.raises(NotFound):
        system.check(location)


def test_a_log_that_never_was_is_not_found(new_location: NewLocation) -> None:
    missing = new_location()
    with pytest.raises(NotFound):
        LOG_SYSTEMS.create(missing.system).check(missing)


def test_a_location_travels_and_tells_no_secret(location: LogLocation) -> None:
    secret = replace(location, properties={"sasl.password": "hush"})
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert hash(secret) == hash(replace(secret, properties={}))
    assert "hush" not in repr(secret)


def test_what_is_no_longer_held_is_an_error_that_names_the_first_offset(
    new_location: NewLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = LOG_SYSTEMS.create(new_location().system)
    location = system.create(new_location(retention_ms=3_600_000))
    appender, reader = system.appender(location), system.reader(location)
    append_and_expire(location, appender, monkeypatch)
    assert reader.first_offsets([0])[0] == 2
    with pytest.raises(OffsetExpired, match=r"offset 0 .* first one is 2"):
        for _ in range(100):
            reader.read(0, 0)
            reader.wait({0: 0}, 0.1)
    assert reader.read(0, 2, 3).column("value").to_pylist() == [b"c"]
    appender.close()
    reader.close()


def append_and_expire(location: LogLocation, appender: LogAppender, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends three records to bucket 0, of which the log forgets the first two, as its retention would."""
    if location.system == "embedded":
        monkeypatch.setattr(embedded, "_TRIM_EVERY", 1)
        with monkeypatch.context() as long_ago:
            long_ago.setattr(embedded, "now_ms", lambda: 0)
            append(appender, [b"a", b"b"])
        append(appender, [b"c"])
        return
    append(appender, [b"a", b"b", b"c"])
    admin = AdminClient({"bootstrap.servers": location.address})
    partition = TopicPartition(location.topic, 0, 2)
    admin.delete_records([partition])[partition].result(10)


def test_errors_of_a_missing_log_are_errors_of_lakelog(new_location: NewLocation) -> None:
    missing = new_location()
    with pytest.raises(LakelogError):
        LOG_SYSTEMS.create(missing.system).reader(missing).end_offsets()
