"""A topic on a real Kafka that a real Debezium connector has filled becomes a table, with what it already holds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import connect
from lakelog.errors import AlreadyExists, LakelogError, UnsupportedFeature
from lakelog.lake.lake import Lake
from lakelog.service.servers.server_process import KafkaBroker
from lakelog.spark.realtime.realtime import realtime_log
from recorded_changes import SCHEMAS, TABLE, recorded

TOPIC = "shop.public.orders"
Pairs = list[tuple[bytes | None, bytes | None]]


def make_topic(broker: KafkaBroker, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions)])[TOPIC].result(120)


def make_anew(broker: KafkaBroker) -> None:
    """Deletes the topic and creates it again with one partition; the deletion may take a moment."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(120)
    end = time.monotonic() + 120
    while True:
        try:
            make_topic(broker)
            break
        except KafkaException:
            assert time.monotonic() < end


def send(broker: KafkaBroker, records: Pairs) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in records:
        producer.produce(TOPIC, value, key, partition=0)
    assert producer.flush(20) == 0


def create(lake: Lake, broker: KafkaBroker, more: str = ", 'log-store.adopt' = 'true'") -> None:
    lake.sql(
        f"create table db.orders ({TABLE}, primary key (id)) tblproperties ('log-store.topic' = '{TOPIC}', "
        f"'log-store.enabled' = 'true', 'log-store.address' = '{broker.bootstrap}'{more})"
    )


def names(lake: Lake, **options: str) -> dict[int, str]:
    found = lake.table("db.orders").scan(options=options).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def test_a_topic_is_a_table_with_what_it_holds_and_outlives_it(tmp_path: Path, kafka: KafkaBroker) -> None:
    lake, records = connect(warehouse=str(tmp_path / "warehouse")), recorded(SCHEMAS)
    with pytest.raises(LakelogError, match="does not exist"):
        create(lake, kafka)
    make_topic(kafka, 2)
    with pytest.raises(AlreadyExists, match="2 partitions"):
        create(lake, kafka)
    make_anew(kafka)
    send(kafka, records[:12])
    with pytest.raises(AlreadyExists, match=r"log-store\.adopt"):
        create(lake, kafka, "")
    create(lake, kafka)
    before = {1: "ANT", 3: "cat", 4: "dog"}
    assert names(lake, **{"read.mode": "union"}) == before, "before any follower has run"
    list(lake.table("db.orders").follow("latest"))
    assert names(lake) == before
    with pytest.raises(UnsupportedFeature, match="read_stream"):
        realtime_log(lake.table("db.orders").logical)
    send(kafka, records[12:])
    list(lake.table("db.orders").follow("latest"))
    assert names(lake) == {1: "ANT", 20: "bee"}
    lake.sql("drop table db.orders purge")
    create(lake, kafka)
    list(lake.table("db.orders").follow("latest"))
    assert names(lake) == {1: "ANT", 20: "bee"}, "the topic was not deleted with the table"
