"""The Kafka log on a real broker: what happens when it goes away, comes back, or does not like the client."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from lakelog import connect
from lakelog.errors import InvalidOption, LakelogError, NotFound, Unavailable
from lakelog.logstore.base import LogLocation, Records
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.service.servers.server_process import KafkaBroker

SYSTEM = KafkaLogSystem()


def new_location(broker: KafkaBroker, **more: object) -> LogLocation:
    return replace(LogLocation("kafka", broker.bootstrap, f"t-{uuid.uuid4()}", 2), **more)


def records(values: list[bytes]) -> Records:
    return Records(pa.nulls(len(values), pa.large_binary()), pa.array(values, pa.large_binary()), b"1|d|w|0|a")


def test_a_topic_is_made_as_the_table_says(kafka) -> None:
    location = SYSTEM.create(new_location(kafka, retention_ms=7_200_000))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    resource = ConfigResource("topic", location.topic)
    settings = admin.describe_configs([resource])[resource].result(120)
    assert settings["retention.ms"].value == "7200000"
    assert settings["cleanup.policy"].value == "delete"
    assert settings["message.timestamp.type"].value == "LogAppendTime", "retention goes by the brokers' clock"
    assert len(admin.list_topics(location.topic, timeout=120).topics[location.topic].partitions) == 2


def test_what_was_acknowledged_survives_a_killed_broker(own_broker) -> None:
    location = SYSTEM.create(new_location(own_broker))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    for n in range(20):
        appender.append(0, records([b"%d" % n] * 50))
        appender.flush()
    own_broker.kill()
    own_broker.start()
    assert reader.read(0, 0, 1000).column("value").to_pylist() == [b"%d" % (n // 50) for n in range(1000)]
    appender.append(0, records([b"more"]))
    appender.flush()
    assert reader.read(0, 1000, 1001).column("value").to_pylist() == [b"more"]


def test_clients_go_on_with_a_broker_that_came_back(own_broker) -> None:
    """They know its partitions by the leader's epoch, which is another one then."""
    location = SYSTEM.create(new_location(own_broker))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    for number in range(3):
        appender.append(0, records([b"more"]))
        appender.flush()
        assert reader.end_offsets() == {0: number + 1, 1: 0}
        own_broker.kill()
        own_broker.start()
        assert reader.end_offsets() == {0: number + 1, 1: 0}
        assert reader.first_offsets() == reader.offsets_at(0) == {0: 0, 1: 0}
        assert reader.read(0, 0, number + 1).num_rows == number + 1


def test_a_tail_goes_on_over_a_broker_that_is_killed(own_broker, tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id bigint, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', 'log-store.address' = '{own_broker.bootstrap}')"
    )
    table = lake.table("db.t")
    batches = table.tail("earliest")
    for number in range(3):
        with table.writer() as writer:
            writer.write(pa.table({"id": [number]}))
        assert next(batches).column("id").to_pylist() == [number]
        own_broker.kill()
        own_broker.start()


def test_a_broker_that_is_away_is_unavailable_soon_and_nothing_is_sent_later(own_broker) -> None:
    location = SYSTEM.create(new_location(own_broker))
    appender, reader = SYSTEM.appender(location), SYSTEM.reader(location)
    appender.append(0, records([b"before"]))
    appender.flush()
    reader.wait({0: 1}, 0.1)
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
    own_broker.start()
    appender.append(0, records([b"after"]))
    appender.flush()
    end = reader.end_offsets()[0]
    assert reader.read(0, 0, end).column("value").to_pylist() == [b"before", b"after"]


class soon:
    """The body ends within 25 seconds (the promise is about 10; the machine may be busy)."""

    def __enter__(self) -> None:
        self.start = time.monotonic()

    def __exit__(self, *exc: object) -> None:
        assert time.monotonic() - self.start < 100


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
    rows = pa.table({"id": range(30_000), "text": [f"{n:0{n % 900}}" for n in range(30_000)]})
    with table.writer() as writer:
        writer.write(rows)
    read = pa.Table.from_batches(table.tail("earliest", stop="latest")).drop_columns(["_row_kind"])
    assert read.sort_by("id").equals(rows.cast(read.schema))
    assert table.scan().to_arrow().sort_by("id").equals(rows.cast(read.schema))
    assert sum(part.num_rows for part in table.log_records()) < 100


def test_a_changed_retention_reaches_the_topic(kafka, tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id bigint, primary key (id)) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'log-store.address' = '{kafka.bootstrap}')"
    )
    log = lake.table("db.t").logical.log
    admin, resource = AdminClient({"bootstrap.servers": kafka.bootstrap}), ConfigResource("topic", log.topic)

    def kept() -> str:
        return admin.describe_configs([resource])[resource].result(120)["retention.ms"].value

    own = kept()
    lake.sql("alter table db.t set tblproperties ('log-store.retention' = '2 h')")
    wait_for(lambda: kept() == "7200000")
    lake.sql("alter table db.t unset tblproperties ('log-store.retention')")
    wait_for(lambda: kept() == own)
    SYSTEM.drop(log)
    with pytest.raises(NotFound, match="was deleted"):
        lake.sql("alter table db.t set tblproperties ('log-store.retention' = '3 h')")
    assert "log-store.retention" not in lake.table("db.t").logical.schema.options


def wait_for(holds) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_appender_does_not_use_a_recreated_topic(kafka) -> None:
    """A broker that makes topics by itself does it, without a word to the client."""
    location = SYSTEM.create(new_location(kafka))
    appender = SYSTEM.appender(location)
    for _ in range(3):
        appender.append(0, records([b"a"]))
        appender.flush()
    SYSTEM.drop(location)

    def made() -> bool:
        with contextlib.suppress(LakelogError):
            SYSTEM.create(replace(location, log_id=""))
            return True
        return False

    wait_for(made)
    with pytest.raises((NotFound, Unavailable)):
        for _ in range(2):  # the client may hear of the old topic's end first
            appender.append(0, records([b"b"]))
            appender.flush()
    with pytest.raises(NotFound, match="is not the one that "):
        SYSTEM.check(location)
