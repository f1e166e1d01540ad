"""Tables that are dropped, created again and renamed, and topics that are, under processes that have them open."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from debezium_consumer import folded
from lakelog import connect
from lakelog.catalog.directories import Directories
from lakelog.errors import AlreadyExists, NotFound, TableReplaced
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.logstore import topic_identity as identity
from lakelog.service.servers.server_process import KafkaBroker

CREATE = (
    "create table db.x (id int, v string, primary key (id)) tblproperties ('log-store.enabled' = 'true', "
    "'log-store.address' = '{}')"
)


@pytest.fixture
def lakes(tmp_path: Path, kafka: KafkaBroker) -> tuple[Lake, Lake]:
    """Two that know nothing of each other; the first one has made and written a table ``db.x``."""
    service, owner = (connect(warehouse=str(tmp_path / "warehouse")) for _ in range(2))
    service.sql(CREATE.format(kafka.bootstrap))
    write(service.table("db.x"), 1, "before")
    return service, owner


def write(table: Table, id_: int, value: str) -> None:
    with table.writer() as writer:
        writer.write(pa.table({"id": pa.array([id_], pa.int32()), "v": [value]}))


def stores(table: Table) -> list[tuple[int, str]]:
    """The rows, which both stores have."""
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    plain = sorted((r["id"], r["v"]) for r in folded(values, ["id"]).values())
    assert plain == sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())
    return plain


def make_anew(broker: KafkaBroker, topic: str) -> None:
    """Somebody deletes a topic and makes another one of its name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(120)
    end = time.monotonic() + 120
    while True:
        try:
            admin.create_topics([NewTopic(topic, 1)])[topic].result(120)
            break
        except KafkaException:  # its deletion may take a moment
            assert time.monotonic() < end
            time.sleep(0.1)
    while True:
        try:
            admin.describe_topics(TopicCollection([topic]))[topic].result(120)
            return
        except KafkaException:  # the broker may not know of it at once
            assert time.monotonic() < end
            time.sleep(0.1)


def after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "monotonic_s", lambda: time.monotonic() + 2 * identity.CHECK_EVERY_S)


@pytest.mark.parametrize("purge", ["", " purge"])
def test_a_handle_from_before_drop_and_create_writes_nothing(lakes, kafka, purge: str) -> None:
    service, owner = lakes
    table = service.table("db.x")
    open_writer = table.writer()
    open_writer.write(pa.table({"id": pa.array([2], pa.int32()), "v": ["foreign"]}))
    owner.sql(f"drop table db.x{purge}")
    owner.sql(CREATE.format(kafka.bootstrap))
    with pytest.raises(TableReplaced):
        open_writer.commit()
    with pytest.raises(TableReplaced):
        write(table, 3, "foreign")
    with pytest.raises(TableReplaced):
        table.scan().to_arrow()
    new = owner.table("db.x")
    assert stores(new) == []
    write(new, 5, "new")
    assert stores(new) == [(5, "new")]


def test_a_handle_of_a_renamed_table_appends_nothing_to_its_log(lakes) -> None:
    service, owner = lakes
    table = service.table("db.x")
    owner.sql("alter table db.x rename to db.y")
    with pytest.raises(TableReplaced, match="open it again"):
        write(table, 1, "refused")
    assert not Path(table.path).exists()
    assert stores(owner.table("db.y")) == [(1, "before")]
    write(service.table("db.y"), 2, "after")
    assert stores(owner.table("db.y")) == [(1, "before"), (2, "after")]


def test_open_clients_do_not_read_or_write_a_recreated_topic(lakes, kafka, monkeypatch) -> None:
    table = lakes[0].table("db.x")
    tail = table.tail("earliest")
    assert next(tail).column("id").to_pylist() == [1]
    writer = table.writer()
    writer.write(pa.table({"id": pa.array([2], pa.int32()), "v": ["lost"]}))
    writer.flush()
    assert table.log is not None
    make_anew(kafka, table.log.topic)
    after_a_pause(monkeypatch)
    for use in (lambda: write(table, 3, "foreign"), lambda: list(table.tail("earliest", stop="latest"))):
        with pytest.raises(NotFound, match="is not the one that "):
            use()
    with pytest.raises(NotFound, match="is not the one that "):
        writer.write(pa.table({"id": pa.array([4], pa.int32()), "v": ["foreign"]}))
    with pytest.raises(NotFound, match="is not the one that "):
        next(tail)
    assert "is not the one" in table.health().figures.log.trouble
    assert [r["id"] for r in table.scan().to_arrow().to_pylist()] == [1]


def test_a_topic_whose_records_expired_is_no_table_s_topic(lakes: tuple[Lake, Lake], kafka: KafkaBroker) -> None:
    owner = lakes[1]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic("once_used", 1)])["once_used"].result(120)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce("once_used", b"row")
    assert producer.flush(20) == 0
    expired = TopicPartition("once_used", 0, 1)
    admin.delete_records([expired])[expired].result(120)
    with pytest.raises(AlreadyExists, match="held records"):
        owner.sql(CREATE.format(f"{kafka.bootstrap}', 'log-store.topic' = 'once_used").replace("db.x", "db.y"))
    assert not owner.table_exists("db.y")


def test_create_refuses_the_empty_topic_of_another_table(lakes: tuple[Lake, Lake], kafka: KafkaBroker) -> None:
    service, owner = lakes
    create = CREATE.format(f"{kafka.bootstrap}', 'log-store.topic' = 'named")
    service.sql(create.replace("db.x", "db.y"))
    with pytest.raises(AlreadyExists, match=r"'log-store\.topic' = 'named' is the log of table db\.y"):
        owner.sql(create.replace("db.x", "db.z"))
    write(service.table("db.y"), 1, "own")
    assert stores(service.table("db.y")) == [(1, "own")]
    assert not owner.table_exists("db.z")


def test_a_purge_during_a_rename_keeps_the_topic_of_the_renamed_table(
    lakes: tuple[Lake, Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, owner = lakes
    drop = Directories.drop_table

    def renamed_before(*arguments: Any, **options: Any) -> None:
        owner.rename_table("db.x", "db.renamed")
        monkeypatch.setattr(Directories, "drop_table", drop)
        drop(*arguments, **options)

    monkeypatch.setattr(Directories, "drop_table", renamed_before)
    with pytest.raises(NotFound):
        service.sql("drop table db.x purge")
    write(owner.table("db.renamed"), 2, "after")
    assert stores(owner.table("db.renamed")) == [(1, "before"), (2, "after")]
