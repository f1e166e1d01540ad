"""A follower on a real Kafka with garbage among the records: it never stops; good and rejected are what was sent."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import connect
from lakelog.service.servers.server_process import KafkaBroker

TOPIC = "shop.public.events"
ROWS = 20_000
KILLS = 4


def value_of(number: int) -> bytes:
    """Each 97th record is no JSON, each 89th has a text for a number."""
    if number % 97 == 0:
        return b"garbage %d \xff" % number
    text = b'"x%d"' if number % 89 == 0 else b"%d"
    return b'{"before":null,"after":{"id":' + text % number + b',"name":"a"},"op":"c"}'


def is_bad(number: int) -> bool:
    return number % 97 == 0 or number % 89 == 0


def test_a_follower_that_is_killed_rejects_each_bad_record_once(tmp_path: Path, kafka: KafkaBroker) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(120)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id bigint, name string) using lakelog tblproperties ('bucket' = '1', 'bucket-key' = 'id', "
        f"'log-store.enabled' = 'true', 'log-store.topic' = '{TOPIC}', 'log-store.address' = '{kafka.bootstrap}', "
        "'log-store.adopt' = 'true', 'commit.interval' = '50 ms', 'on-bad-record' = 'keep')"
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def send(ids: range) -> None:
        for number in ids:
            producer.produce(TOPIC, value_of(number), partition=0)
        assert producer.flush(30) == 0

    command = [sys.executable, "-m", "lakelog", "follow", "db.t", "--warehouse", str(tmp_path / "warehouse")]
    part = ROWS // (KILLS + 1)
    for number in range(KILLS):
        sending = threading.Thread(target=send, args=(range(number * part, number * part + part),))
        follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert follower.stdout is not None
        sending.start()
        assert follower.stdout.readline()  # one snapshot, while more records come
        follower.kill()
        follower.wait()
        sending.join()
    send(range(KILLS * part, ROWS))
    list(lake.table("db.t").follow("latest"))
    assert sorted(lake.table("db.t").scan().to_arrow()["id"].to_pylist()) == [i for i in range(ROWS) if not is_bad(i)]
    found = lake.table("db.t$rejected").scan(["value", "topic", "bucket", "offset"]).to_arrow()
    places = found["offset"].to_pylist()
    assert dict(zip(places, found["value"].to_pylist(), strict=True)) == {
        i: value_of(i) for i in range(ROWS) if is_bad(i)
    }
    assert len(places) == len(set(places))
    assert {*found["topic"].to_pylist()} == {TOPIC}
    assert {*found["bucket"].to_pylist()} == {0}
    assert lake.table("db.t").health().figures.rejected == len(places)
