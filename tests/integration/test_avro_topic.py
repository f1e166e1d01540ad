"""A topic on a real Kafka that a connector with Confluent's AvroConverter has filled becomes a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from avro_of_connect import as_avro
from lakelog import connect
from lakelog.errors import Corrupt
from lakelog.service.servers.server_process import KafkaBroker
from ready_formats import schema_registry
from recorded_changes import SCHEMAS, TABLE, recorded
from servers.schema_registry import message

TOPIC = "shop.public.avro_orders"
LATER = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "after",
            "type": {
                "type": "record",
                "name": "Value",
                "fields": [{"name": "ID", "type": "int"}, {"name": "NAME", "type": "string"}],
            },
        },
        {"name": "op", "type": "string"},
    ],
}
"""What another release of the connector writes: fewer columns, in capitals, and a smaller key."""


def send(broker: KafkaBroker, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in records:
        producer.produce(TOPIC, value, key, partition=0)
    assert producer.flush(120) == 0


def test_every_reader_has_the_rows_of_a_connector_with_avro(tmp_path: Path, kafka: KafkaBroker) -> None:
    registry = schema_registry()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(120)
    records = [
        (as_avro(registry, f"{TOPIC}-key", key), as_avro(registry, f"{TOPIC}-value", value))
        for key, value in recorded(SCHEMAS)
    ]
    send(kafka, *records)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.orders ({TABLE}, primary key (id)) tblproperties ('log-store.topic' = '{TOPIC}', "
        f"'log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.adopt' = 'true', "
        f"'log-store.data-format' = 'avro', 'log-store.schema-registry.url' = '{registry.url}', "
        "'write.missing-columns' = 'null')"
    )
    table = lake.table("db.orders")

    def names(**options: str) -> dict[int, str]:
        found = table.scan(options=options).to_arrow()
        return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))

    kinds = [row["_row_kind"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert kinds == ["+I"] * 4 + ["+U", "-D", "+I", "-D", "-U", "+U", "-D"]
    assert names(**{"read.mode": "union"}) == {1: "ANT", 20: "bee"}
    list(table.follow("latest"))
    assert names() == {1: "ANT", 20: "bee"}
    number = registry.add(f"{TOPIC}-value", LATER)
    send(kafka, (b"k", message(number, LATER, {"after": {"ID": 5, "NAME": "eel"}, "op": "c"})), (b"k", None))
    assert names(**{"read.mode": "union"}) == {1: "ANT", 20: "bee", 5: "eel"}
    list(table.follow("latest"))
    assert names() == {1: "ANT", 20: "bee", 5: "eel"}
    send(kafka, (b"k", b"\0\0\0\3\xe7\0"))
    with pytest.raises(
        Corrupt, match=f"offset {len(records) + 2} of bucket 0 .*{registry.url} has no schema with id 999"
    ):
        list(table.follow("latest"))


def test_a_stream_of_spark_has_the_changes_and_resumes(tmp_path: Path, kafka: KafkaBroker, spark: SparkSession) -> None:
    topic, registry = f"{TOPIC}.streamed", schema_registry()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(120)
    records = [
        (as_avro(registry, f"{topic}-key", key), as_avro(registry, f"{topic}-value", value))
        for key, value in recorded(SCHEMAS)
    ]
    producer = Producer({"bootstrap.servers": kafka.bootstrap})

    def produce(part: list[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in part:
            producer.produce(topic, value, key, partition=0)
        assert producer.flush(120) == 0

    with connect(spark, warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql(
            f"create table db.streamed ({TABLE}, primary key (id)) tblproperties ('log-store.topic' = '{topic}', "
            f"'log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.adopt' = 'true', "
            f"'log-store.data-format' = 'avro', 'log-store.schema-registry.url' = '{registry.url}')"
        )
        kinds: list[tuple[str, int]] = []

        def stream() -> None:
            changes = lake.read_stream("db.streamed", options={"read.mode": "log", "scan.startup.mode": "earliest"})
            written = changes.writeStream.foreachBatch(
                lambda rows, _: kinds.extend((row["_row_kind"], row["id"]) for row in rows.collect())
            )
            query = (
                written.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
            )
            query.awaitTermination()

        produce(records[:7])
        stream()
        first = len(kinds)
        produce(records[7:])
        stream()
        tail = [row for batch in lake.table("db.streamed").tail("earliest", stop="latest") for row in batch.to_pylist()]
        assert 0 < first < len(kinds)
        assert kinds == [(row["_row_kind"], row["id"]) for row in tail]
