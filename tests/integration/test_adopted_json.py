"""Topics on a real Kafka that Canal, Maxwell or a plain producer has filled become tables."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakelog import connect
from lakelog.logstore.formats import LOG_FORMATS
from lakelog.service.servers.server_process import KafkaBroker
from records_of_formats import JSON, Given

ANT, BEE = {"id": 1, "name": "ant"}, {"id": 2, "name": "bee"}


@pytest.mark.parametrize("name", [name for name in sorted(LOG_FORMATS) if not LOG_FORMATS.load(name).is_written])
def test_a_topic_of_another_system_is_a_table(tmp_path: Path, kafka: KafkaBroker, name: str) -> None:
    topic = f"adopted.{name}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(120)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for change in (Given(None, ANT), Given(None, BEE), Given(BEE, {"id": 2, "name": "BEE"}), Given(ANT, None)):
        key = orjson.dumps({"id": (change.new or change.old or {})["id"]})
        value = None if name == "plain-json" and change.new is None else JSON[name](change)
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(120) == 0
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string, primary key (id)) tblproperties ('log-store.topic' = '{topic}', "
        f"'log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.adopt' = 'true', "
        f"'log-store.data-format' = '{name}', 'log-store.key-format' = 'json')"
    )
    table = lake.table("db.t")
    assert table.scan(options={"read.mode": "union"}).to_arrow().to_pylist() == [{"id": 2, "name": "BEE"}]
    kinds = [row["_row_kind"] for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert kinds[:2] == ["+I", "+I"] and kinds[-1] == "-D"
    list(table.follow("latest"))
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "name": "BEE"}]
