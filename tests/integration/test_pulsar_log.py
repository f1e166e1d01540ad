"""The Pulsar log on a real server: what happens when it goes away, comes back, or holds what others wrote."""

from __future__ import annotations

import json
import multiprocessing
import os
import time

import pulsar
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt, InvalidRequest, Unavailable
from lakelog.logstore.base import LogLocation
from lakelog.logstore.pulsar.access import client_for
from lakelog.logstore.pulsar.packs import PACK_KEY
from lakelog.logstore.pulsar.system import PulsarLogSystem
from lakelog.logstore.pulsar.topic import PulsarTopic
from log_records import append, everything, records, soon
from log_tables import files, rows
from pulsar_logs import eventually, new_location, on

SYSTEM = PulsarLogSystem()


def test_a_reader_that_follows_misses_nothing_when_the_broker_is_killed(own_server) -> None:
    """What is acknowledged comes once and in order to one who reads on; what is not may come once or not at all."""
    location = SYSTEM.create(new_location(own_server))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    positions, got, acknowledged = reader.first_offsets(), [], []

    def read_on() -> None:
        reader.wait(positions, 0.1)
        found = reader.read(0, positions[0])
        if found.num_rows:
            got.extend(found.column("value").to_pylist())
            positions[0] = found.column("offset")[-1].as_py() + 1

    for n in range(120):
        if n == 60:
            own_server.kill()
            own_server.start()
        for attempt in range(100):
            try:
                append(appender, [b"%d/%d" % (n, attempt)] * 3)
                acknowledged += [b"%d/%d" % (n, attempt)] * 3
                break
            except Unavailable:
                continue
        eventually(read_on)
    end = time.monotonic() + 120
    while len([v for v in got if v in set(acknowledged)]) < len(acknowledged) and time.monotonic() < end:
        eventually(read_on)
    assert [v for v in got if v in set(acknowledged)] == acknowledged
    assert everything(SYSTEM.reader(location)) == everything(reader) == got, (
        "a new reader and one that lived through it"
    )


def test_a_broker_that_is_away_is_unavailable_soon_and_nothing_is_sent_later(own_server, tmp_path) -> None:
    table = on(own_server, tmp_path)
    table.write(rows(1, 2))
    location = SYSTEM.create(new_location(own_server))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    append(appender, [b"before"])
    ends = reader.end_offsets()
    reader.wait(ends, 0.1)
    own_server.kill()
    pending = appender.append(0, records([b"lost"]))
    with soon(), pytest.raises(Unavailable, match=own_server.service_url):
        appender.flush()
    with pytest.raises(Unavailable):
        pending.offsets()
    with soon(), pytest.raises(Unavailable, match=r"log-store\.address"):
        reader.end_offsets()
    with soon(), pytest.raises(Unavailable):
        while True:
            reader.wait(ends, 0.5)
    with soon(), pytest.raises(Unavailable):
        SYSTEM.check(location)
    with pytest.raises(Unavailable), table.writer() as writer:
        writer.write(rows(3, 4))
    own_server.start()
    eventually(lambda: append(appender, [b"after"]))
    assert eventually(lambda: everything(reader)) == [b"before", b"after"]

    def write() -> None:
        table.write(rows(5, 6))

    eventually(write)
    told = [r["id"] for b in table.tail("earliest", stop="latest") for r in b.to_pylist()]
    assert sorted(told) == [n for n, _ in files(table)] == [1, 2, 5, 6]


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_many_rows_go_through_a_topic_and_into_files_in_order(pulsar_server, tmp_path, form) -> None:
    """Large runs, whose rows become files with the numbers of the log; the newest row of a key wins."""
    table = on(pulsar_server, tmp_path, more=f", 'log-store.data-format' = '{form}'")
    for name in ("old", "new"):
        table.write(rows(*range(60_000), name=name * 10))
    assert files(table) == [(n, "new" * 10) for n in range(60_000)]
    read = pa.Table.from_batches(table.tail("earliest", stop="latest"))
    assert read.num_rows == 120_000


def test_a_header_of_another_version_is_an_error_and_plain_messages_are_unowned_rows(pulsar_server) -> None:
    location = SYSTEM.create(new_location(pulsar_server))
    topic, reader = PulsarTopic(location), SYSTEM.reader(location)
    client = client_for(topic.access)
    plain = client.create_producer(topic.partition(0), batching_enabled=True, batching_max_publish_delay_ms=500)
    for n in range(10):
        plain.send_async(b"%d" % n, None, partition_key=f"k{n}")
    plain.flush()
    plain.send(b"alone")
    found = reader.read(0, reader.first_offsets()[0], reader.end_offsets()[0])
    assert found.column("value").to_pylist() == [*(b"%d" % n for n in range(10)), b"alone"]
    assert found.column("key").to_pylist() == [*(b"k%d" % n for n in range(10)), None]
    assert found.column("header").null_count == 11
    assert sorted(set(found.column("offset").to_pylist())) == found.column("offset").to_pylist()
    other = client.create_producer(topic.partition(1))
    other.send(b"?", properties={PACK_KEY: "9|1|1"})
    with pytest.raises(Corrupt, match=r"'9\|1\|1'.*upgrade lakelog"):
        everything(reader, 1)
    plain.close()
    other.close()


def test_a_plain_client_reads_a_table_without_packs(pulsar_server, tmp_path) -> None:
    table = on(pulsar_server, tmp_path, more=", 'properties.pulsar.producer.packs' = 'false'")
    table.write(rows(1, 2, 3))
    table.delete("id = 2")
    location = table.logical.log
    plain = pulsar.Client(pulsar_server.service_url)
    found: dict[str, dict[str, object]] = {}
    for bucket in range(location.buckets):
        reader = plain.create_reader(PulsarTopic(location).partition(bucket), pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(10_000)
            if message.has_null_value():  # a commit marker
                continue
            change = json.loads(message.data())
            if change["op"] == "d":
                del found[message.partition_key()]
            else:
                found[message.partition_key()] = change["after"]
    plain.close()
    assert sorted(found) == ['{"id":1}', '{"id":3}']
    assert {row["id"] for row in found.values()} == {1, 3}
    assert files(table) == [(1, "a"), (3, "a")]


def test_a_record_that_is_too_large_is_the_caller_s_to_change(pulsar_server) -> None:
    location = SYSTEM.create(new_location(pulsar_server))
    appender = SYSTEM.appender(location)
    with soon(), pytest.raises(InvalidRequest, match="maxMessageSize"):
        append(appender, [os.urandom(8_000_000)])
    assert append(appender, [b"small"])


def append_in_a_child(location: LogLocation) -> None:
    append(SYSTEM.appender(location), [b"child"])


def test_a_process_of_its_own_opens_clients_of_its_own(pulsar_server) -> None:
    location = SYSTEM.create(new_location(pulsar_server))
    append(SYSTEM.appender(location), [b"parent"])
    for method in ("spawn", "fork"):
        child = multiprocessing.get_context(method).Process(target=append_in_a_child, args=(location,))
        child.start()
        child.join(120)
        assert child.exitcode == 0
    assert everything(SYSTEM.reader(location)) == [b"parent", b"child", b"child"]
