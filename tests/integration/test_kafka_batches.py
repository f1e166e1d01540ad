"""The batches of the Kafka log on real brokers: other clients read them, and they read other clients' records."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from lakelog.errors import InvalidOption, LakelogError
from lakelog.logstore.base import LogLocation, LogReader, Records
from lakelog.logstore.kafka.batch_appender import BatchAppender
from lakelog.logstore.kafka.batch_reader import BatchReader
from lakelog.logstore.kafka.record_clients import RecordAppender, RecordReader
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.service.servers.server_process import KafkaBroker
from servers.kafka_cluster import KafkaCluster, SecureKafka

SYSTEM = KafkaLogSystem()
HEADER = b"1|d|writer|7|attempt"
Seen = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def new_log(broker: KafkaBroker, buckets: int = 1) -> LogLocation:
    return SYSTEM.create(LogLocation("kafka", broker.bootstrap, f"t-{uuid.uuid4()}", buckets))


def drawn(rng: random.Random, count: int) -> list[tuple[bytes | None, bytes | None, bytes]]:
    """Keys, values and headers of any kind: null, empty, long, alike for a while and then not."""
    rows: list[tuple[bytes | None, bytes | None, bytes]] = []
    while len(rows) < count:
        kind, run = rng.randrange(6), rng.choice([1, 3, 60, 900])
        for n in range(run):
            value: bytes | None = rng.randbytes(rng.randrange(40)) if kind else None
            if kind == 1:
                value = b'{"before":null,"after":{"id":%d},"op":"c"}' % n
            if kind == 2 and n % 50 == 0:
                value = rng.randbytes(1) * rng.randrange(70_000)
            key = None if kind in (0, 3) else b"%d" % rng.randrange(10 ** rng.randrange(1, 9))
            rows.append((key, value, HEADER if kind != 4 else b"1|x|%d" % n))
    return rows[:count]


def as_records(rows: list[tuple[bytes | None, bytes | None, bytes]]) -> Records:
    keys, values, headers = zip(*rows, strict=True)
    same = headers[0] if len(set(headers)) == 1 else list(headers)
    return Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), same)


def consumed(broker: KafkaBroker, topic: str, count: int) -> list[Seen]:
    """All records of partition 0, by a plain consumer that checks the CRC."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Seen] = []
    end = time.monotonic() + 120
    while len(found) < count and time.monotonic() < end:
        for message in consumer.consume(10_000, 0.2):
            assert message.error() is None
            found.append((message.offset(), message.key(), message.value(), message.headers()))
    consumer.close()
    return found


def test_a_plain_consumer_reads_what_was_appended_in_batches(kafka, depth) -> None:
    rng = random.Random(uuid.uuid4().int)
    log = new_log(kafka)
    appender, rows, offsets = BatchAppender(log), [], []
    for _ in range(depth.cases(20)):
        parts = [drawn(rng, rng.choice([1, 40, 2_000])) for _ in range(rng.randrange(1, 4))]
        pending = appender.append_all([(0, as_records(part)) for part in parts])
        if rng.random() < 0.7:
            appender.flush()
        rows += [row for part in parts for row in part]
        offsets += pending
    appender.flush()
    given = [o for pending in offsets for o in pending.offsets().to_pylist()]
    assert given == list(range(len(rows)))
    expected = [(n, key, value, [("lakelog", header)]) for n, (key, value, header) in enumerate(rows)]
    assert consumed(kafka, log.topic, len(rows)) == expected
    appender.close()


def read_all(reader: LogReader, most: int) -> pa.Table:
    end = reader.end_offsets([0])[0]
    return pa.concat_tables([*reader.chunks(0, 0, end, most)])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_other_producers_are_read_as_a_plain_consumer_does(kafka, codec, depth) -> None:
    rng = random.Random(uuid.uuid4().int)
    log = new_log(kafka)
    for batch_size in (1, 50, 100_000):
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "batch.num.messages": batch_size}
        )
        for number, (key, value, header) in enumerate(drawn(rng, depth.cases(3_000))):
            headers = [[], [("lakelog", header)], [("other", b"x")], [("other", b"x"), ("lakelog", header)]]
            producer.produce(log.topic, value, key, 0, headers=headers[number // 500 % 4])
        producer.flush()
    batches, records = BatchReader(log), RecordReader(log)
    for most in (100_000, 700):
        assert read_all(batches, most).equals(read_all(records, 100_000))
    batches.close()
    records.close()


def test_records_of_aborted_transactions_are_not_read(kafka) -> None:
    log = new_log(kafka)
    plain = Producer({"bootstrap.servers": kafka.bootstrap})
    names = [f"t-{uuid.uuid4()}" for _ in range(2)]
    writers = [Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name}) for name in names]
    for writer in writers:
        writer.init_transactions(20)
    expected = []
    for number in range(12):
        for writer in writers:
            writer.begin_transaction()
        for part in range(30):
            for which, client in enumerate([plain, *writers]):
                client.produce(log.topic, b"%d %d %d" % (number, part, which), None, 0)
                client.flush()
        for which, writer in enumerate(writers, 1):
            if (number + which) % 3:
                writer.commit_transaction(20)
            else:
                writer.abort_transaction(20)
        aborted = {which for which in (1, 2) if (number + which) % 3 == 0}
        expected += [
            b"%d %d %d" % (number, part, which) for part in range(30) for which in range(3) if which not in aborted
        ]
    reader = BatchReader(log)
    for most in (100_000, 7):
        assert read_all(reader, most).column("value").to_pylist() == expected
    position, got = 0, 0
    while got < len(expected):  # as a follower
        reader.wait({0: position}, 0.1)
        found = reader.read(0, position)
        got += found.num_rows
        position = found.column("offset")[-1].as_py() + 1 if found.num_rows else position
    assert reader.ready_offsets({0: position}) == {0: reader.end_offsets([0])[0]}
    reader.close()


def test_a_batch_that_the_broker_refuses_is_cut_until_it_fits(kafka) -> None:
    log = new_log(kafka)
    entry = ConfigEntry("max.message.bytes", "3000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", log.topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(120)
    rng = random.Random(5)
    values = [b"%d " % n + rng.randbytes(400) for n in range(3_000)]
    appender, reader = BatchAppender(log), BatchReader(log)
    pending = [
        appender.append(0, Records(pa.nulls(len(part), pa.large_binary()), pa.array(part, pa.large_binary()), HEADER))
        for part in (values[:1_000], values[1_000:1_001], values[1_001:])
    ]
    appender.flush()
    assert [o for p in pending for o in p.offsets().to_pylist()] == list(range(3_000))
    assert reader.read(0, 0, 3_000).column("value").to_pylist() == values


@pytest.fixture
def cluster(tmp_path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "cluster") as started:
        yield started


def test_a_leader_that_moves_loses_and_repeats_nothing(cluster) -> None:
    """Its broker is killed while records are on their way to it, and comes back while others are."""
    topic = f"t-{uuid.uuid4()}"
    cluster.create_topic(topic, 3)
    log = LogLocation("kafka", cluster.bootstrap, topic, 3)
    appender, reader = BatchAppender(log), BatchReader(log)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    stop = threading.Event()
    failures: list[LakelogError] = []

    def write() -> None:
        number = 0
        while not stop.is_set():
            try:
                for bucket, values in sent.items():
                    part = [b"%d" % (number + n) for n in range(200)]
                    appender.append(
                        bucket, Records(pa.nulls(200, pa.large_binary()), pa.array(part, pa.large_binary()), HEADER)
                    )
                    values += part
                number += 200
                appender.flush()
            except LakelogError as failed:
                failures.append(failed)
                return

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(1)
    old = cluster.leader(topic, 0)
    cluster.nodes[old].kill()
    count, end = len(sent[0]), time.monotonic() + 120
    while len(sent[0]) < count + 2_000 and not failures and time.monotonic() < end:
        time.sleep(0.05)
    cluster.nodes[old].start()
    cluster.wait_for_brokers(3)
    stop.set()
    writer.join()
    assert not failures
    for bucket, end in reader.end_offsets().items():
        assert reader.read(bucket, 0, end, 10**9).column("value").to_pylist() == sent[bucket]


@pytest.fixture(scope="module")
def secure(tmp_path_factory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("secure")) as broker:
        yield broker


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_batches_go_through_tls_and_sasl(secure, mechanism, monkeypatch) -> None:
    log = LogLocation("kafka", secure.secure, f"t-{uuid.uuid4()}", 1, properties=secure.properties(mechanism))
    log = SYSTEM.create(log)
    appender, reader = SYSTEM.appender(log), SYSTEM.reader(log)
    assert (type(appender), type(reader)) == (BatchAppender, BatchReader)
    values = [b"%d" % n * 50 for n in range(20_000)]
    pending = appender.append(
        0, Records(pa.nulls(len(values), pa.large_binary()), pa.array(values, pa.large_binary()), HEADER)
    )
    appender.flush()
    assert pending.offsets().to_pylist() == list(range(20_000))
    assert reader.read(0, 0, 20_000).column("value").to_pylist() == values
    monkeypatch.setenv("BROKER", secure.PASSWORD)
    by_reference = replace(log, properties={**log.properties, "sasl.password": "secret:env:BROKER"})
    with pytest.raises(InvalidOption, match="LAKELOG_SECRETS"):
        SYSTEM.reader(by_reference)
    monkeypatch.setenv("LAKELOG_SECRETS", f"env:BROKER@{secure.secure}")
    assert SYSTEM.reader(by_reference).read(0, 0, 20_000).column("value").to_pylist() == values
    wrong = replace(log, properties={**log.properties, "sasl.password": "wrong"})
    with pytest.raises(LakelogError) as refused:
        SYSTEM.appender(wrong)
    assert "wrong" not in str(refused.value) and secure.PASSWORD not in str(refused.value)


def test_a_certificate_that_is_not_there_is_named(secure) -> None:
    given = {**secure.properties("PLAIN"), "ssl.ca.location": "/no/such/ca.pem"}
    with pytest.raises(InvalidOption, match="ssl"):
        SYSTEM.appender(LogLocation("kafka", secure.secure, "t", 1, properties=given))


def test_properties_that_only_librdkafka_knows_choose_it(kafka) -> None:
    log = replace(new_log(kafka), properties={"socket.keepalive.enable": "true"})
    assert type(SYSTEM.appender(log)) is RecordAppender
    assert type(SYSTEM.reader(log)) is RecordReader


def test_a_process_ends_in_silence_while_a_thread_follows_the_log(kafka) -> None:
    log = new_log(kafka)
    job = f"""
import threading
from lakelog.logstore.base import LogLocation
from lakelog.logstore.kafka.batch_reader import BatchReader
begun = threading.Event()
def follow():
    reader = BatchReader(LogLocation("kafka", {log.address!r}, {log.topic!r}, 1))
    begun.set()
    while True:
        reader.wait({{0: 0}}, 0.2)
threading.Thread(target=follow, daemon=True).start()
assert begun.wait(120)
"""
    done = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
