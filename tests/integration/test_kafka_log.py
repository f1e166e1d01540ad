"""The Kafka log on a real broker: what happens when it goes away, comes back, or does not like the client."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from lakelog import connect
from lakelog.errors import InvalidOption, LakelogError, Unavailable
from lakelog.logstore.base import LogLocation
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.service.servers.server_process import KafkaBroker
from log_records import append, everything, records, soon
from log_tables import make, rows

SYSTEM = KafkaLogSystem()


def new_location(broker: KafkaBroker, **more: object) -> LogLocation:
    return replace(LogLocation("kafka", broker.bootstrap, f"t-{uuid.uuid4()}", 2), **more)


def test_a_topic_is_made_as_the_table_says(kafka) -> None:
    location = SYSTEM.create(new_location(kafka, retention_ms=7_200_000))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    resource = ConfigResource("topic", location.topic)
    settings = admin.describe_configs([resource])[resource].result(120)
    assert settings["retention.ms"].value == "7200000"
    assert settings["cleanup.policy"].value == "delete"
    assert settings["message.timestamp.type"].value == "LogAppendTime", "retention goes by the brokers' clock"
    assert len(admin.list_topics(location.topic, timeout=120).topics[location.topic].partitions) == 2


def test_clients_and_a_tail_go_on_over_a_killed_broker_with_all_that_was_acknowledged(own_broker, tmp_path) -> None:
    """Clients know its partitions by the leader's epoch, which is another one then."""
    location = SYSTEM.create(new_location(own_broker))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    for n in range(20):
        append(appender, [b"%d" % n] * 50)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id bigint, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', 'log-store.address' = '{own_broker.bootstrap}')"
    )
    batches = lake.table("db.t").tail("earliest")
    for number in range(2):
        lake.table("db.t").write(pa.table({"id": [number]}))
        assert next(batches).column("id").to_pylist() == [number]
        if number == 0:
            own_broker.kill()
            own_broker.start()
    assert reader.read(0, 0, 1000).column("value").to_pylist() == [b"%d" % (n // 50) for n in range(1000)]
    append(appender, [b"more"])
    assert reader.end_offsets() == {0: 1001, 1: 0}
    assert reader.first_offsets() == reader.offsets_at(0) == {0: 0, 1: 0}
    assert reader.read(0, 1000, 1001).column("value").to_pylist() == [b"more"]


def test_a_broker_that_is_away_is_unavailable_soon_and_nothing_is_sent_later(own_broker, tmp_path) -> None:
    location = SYSTEM.create(new_location(own_broker))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    append(appender, [b"before"])
    reader.wait({0: 1}, 0.1)
    away = ", 'properties.socket.timeout.ms' = '2000', 'properties.request.timeout.ms' = '2000'"
    table = make(tmp_path, f", 'log-store.address' = '{own_broker.bootstrap}'{away}")
    table.write(rows(1))
    own_broker.kill()
    pending = appender.append(0, records([b"lost"]))
    with soon(), pytest.raises(Unavailable, match=own_broker.bootstrap):
        appender.flush()
    with pytest.raises(Unavailable):
        pending.offsets()
    with soon(), pytest.raises(Unavailable, match=r"log-store\.address"):
        reader.end_offsets()
    with soon(), pytest.raises(Unavailable):
        while True:
            reader.wait({0: 1}, 0.5)
    with soon(), pytest.raises(Unavailable):
        SYSTEM.check(location)
    health = table.health()
    assert health.figures.log is not None and "Kafka" in health.figures.log.trouble
    assert health.figures.files == 1
    assert any(finding.what_to_do for finding in health.findings)
    own_broker.start()
    append(appender, [b"after"])
    assert everything(reader) == [b"before", b"after"]


def test_properties_go_to_the_client_and_secrets_stay_out_of_errors(kafka) -> None:
    refused = new_location(kafka, properties={"security.protocol": "no-such", "sasl.password": "hush"})
    with pytest.raises(InvalidOption) as error:
        SYSTEM.create(refused)
    assert "hush" not in str(error.value)
    mute = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    wrong = new_location(kafka, properties={**mute, "sasl.username": "me", "sasl.password": "hush"})
    with soon(), pytest.raises(LakelogError) as error:
        SYSTEM.check(wrong)
    assert "hush" not in str(error.value)


def test_an_address_without_a_server_is_unavailable(kafka) -> None:
    nobody = replace(new_location(kafka), address="127.0.0.1:1")
    with soon(), pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        SYSTEM.create(nobody)


def test_arrow_messages_of_many_rows_go_through_a_topic(kafka, tmp_path) -> None:
    """Wide rows, so that messages are cut by size: a broker takes no more than 1 MB by default."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id bigint, text string, primary key (id)) using lakelog tblproperties ('bucket' = '2', "
        f"'log-store.enabled' = 'true', 'log-store.address' = '{kafka.bootstrap}', 'log-store.data-format' = 'arrow')"
    )
    table = lake.table("db.t")
    wide = pa.table({"id": range(30_000), "text": [f"{n:0{n % 900}}" for n in range(30_000)]})
    table.write(wide)
    read = pa.Table.from_batches(table.tail("earliest", stop="latest")).drop_columns(["_row_kind"])
    assert read.sort_by("id").equals(wide.cast(read.schema))
    assert table.scan().to_arrow().sort_by("id").equals(wide.cast(read.schema))
    assert sum(part.num_rows for part in table.log_records()) < 100
