"""Tables that are dropped, created again and renamed, and topics that are, under processes that have them open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from debezium_consumer import folded
from lakelog import connect
from lakelog.catalog.directories import Directories
from lakelog.errors import AlreadyExists, NotFound
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
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
    table.write(pa.table({"id": pa.array([id_], pa.int32()), "v": [value]}))


def stores(table: Table) -> list[tuple[int, str]]:
    """The rows, which both stores have."""
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    plain = sorted((r["id"], r["v"]) for r in folded(values, ["id"]).values())
    assert plain == sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())
    return plain


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
