"""How every log system makes a log, knows it again, keeps it and drops it: one suite for all that are registered."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.errors import AlreadyExists, LakelogError, NotFound, OffsetExpired, Unavailable
from lakelog.logstore import LOG_SYSTEMS
from lakelog.logstore import topic_identity as identity
from lakelog.logstore.base import LogAppender, LogLocation, LogReader, LogSystem
from lakelog.logstore.embedded import appender as embedded
from lakelog.logstore.embedded.system import EmbeddedLogSystem
from lakelog.logstore.files import appender as files
from lakelog.logstore.pulsar.packs import entry_of
from lakelog.logstore.pulsar.topic import PulsarTopic
from log_days import LogDays
from log_records import NewLocation, append, everything, records


def test_an_empty_log_of_the_same_shape_is_adopted(system: LogSystem, location: LogLocation) -> None:
    again = system.create(replace(location, log_id="", machine=""))
    system.check(again)
    system.check(location)
    with pytest.raises(AlreadyExists, match="log partitions"):
        system.create(replace(location, buckets=3))


def test_a_log_that_holds_records_is_not_taken_over(
    system: LogSystem, location: LogLocation, appender: LogAppender
) -> None:
    append(appender, [b"a"])
    with pytest.raises(AlreadyExists, match=r"log-store\.(topic|address)"):
        system.create(location)


def test_a_dropped_log_does_not_exist_and_can_be_dropped_again(system: LogSystem, location: LogLocation) -> None:
    system.check(location)
    system.drop(location)
    system.drop(location)
    with pytest.raises(NotFound):
        system.check(location)


def test_a_log_that_never_was_is_not_found(new_location: NewLocation) -> None:
    missing = new_location()
    with pytest.raises(NotFound):
        LOG_SYSTEMS.create(missing.system).check(missing)


def test_a_location_is_picklable_and_prints_no_secret(location: LogLocation) -> None:
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
    gone, kept = append_and_expire(location, appender, monkeypatch)
    first = reader.first_offsets([0])[0]
    assert gone < first <= kept
    with pytest.raises(OffsetExpired, match=rf"offset {gone} .* first offset is {first}"):
        for _ in range(100):
            reader.read(0, gone)
            reader.wait({0: gone}, 0.1)
    assert reader.read(0, kept, reader.end_offsets([0])[0]).column("value").to_pylist() == [b"c"]
    appender.close()
    reader.close()


def append_and_expire(location: LogLocation, appender: LogAppender, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Appends three records to bucket 0, of which the log forgets the first two, as its retention would.

    Returns the offsets of the first and of the last one.
    """
    if location.system == "pulsar":
        gone = append(appender, [b"a", b"b"])
        topic = PulsarTopic(location)
        topic.admin.change("PUT", f"{topic.path}-partition-0/unload")  # ends the ledger
        kept = append(appender, [b"c"])
        # whose cursor holds the ledger until it moves, every two minutes
        topic.admin.change("POST", f"{topic.path}/deduplicationEnabled", False)
        topic.admin.change("POST", f"{topic.path}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
        for _ in range(200):
            topic.admin.change("POST", f"{topic.path}-partition-0/trim")
            if topic.states([0])[0].first > entry_of(gone[-1]):
                break
            time.sleep(0.05)
        return gone[0], kept[0]
    if location.system == "files" or isinstance(LOG_SYSTEMS.create(location.system), EmbeddedLogSystem):
        monkeypatch.setattr(embedded, "_TRIM_EVERY", 1)
        monkeypatch.setattr(files, "_EXPIRE_EVERY", 1)
        days = LogDays(monkeypatch)
        gone = append(appender, [b"a", b"b"])
        days.pass_to(1)
        return gone[0], append(appender, [b"c"])[0]
    offsets = append(appender, [b"a", b"b", b"c"])
    admin = AdminClient({"bootstrap.servers": location.address})
    partition = TopicPartition(location.topic, 0, 2)
    admin.delete_records([partition])[partition].result(120)
    return offsets[0], offsets[2]


def made_anew(system: LogSystem, location: LogLocation) -> None:
    """Somebody deletes the log, and another one of its name and shape is made."""
    system.drop(location)
    for _ in range(100):
        try:
            system.create(replace(location, log_id="", machine=""))
            return
        except (AlreadyExists, Unavailable):  # its deletion may take a moment
            time.sleep(0.1)


def test_a_recreated_log_is_not_used_for_the_table(system: LogSystem, location: LogLocation) -> None:
    made_anew(system, location)
    for use in (system.check, system.appender, system.reader):
        with pytest.raises(NotFound, match="is not the one that "):
            use(location)


def test_clients_that_are_open_notice_that_their_log_was_recreated(
    system: LogSystem, location: LogLocation, appender: LogAppender, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(appender, [b"a"])
    assert everything(reader) == [b"a"]
    monkeypatch.setattr(identity, "monotonic_s", lambda: time.monotonic() + 2 * identity.CHECK_EVERY_S)
    made_anew(system, location)
    with pytest.raises(NotFound, match="is not the one that "):
        appender.append(0, records([b"foreign"]))
        appender.flush()
    assert appender.is_stale
    uses: list[Callable[[], object]] = [
        lambda: reader.read(0, 0),
        lambda: reader.wait({0: 0}, 0.1),
        reader.end_offsets,
        reader.first_offsets,
    ]
    for use in uses:
        with pytest.raises(NotFound, match="is not the one that "):
            use()
    new = system.reader(replace(location, log_id="", machine=""))
    assert everything(new) == []
    new.close()


def test_errors_of_a_missing_log_are_errors_of_lakelog(new_location: NewLocation) -> None:
    missing = new_location()
    with pytest.raises(LakelogError):
        LOG_SYSTEMS.create(missing.system).reader(missing).end_offsets()
