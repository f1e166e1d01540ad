"""Topics of mirrors, as a plain consumer of committed records reads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.service.servers.server_process import KafkaBroker
from log_tables import rows


def committed(kafka: KafkaBroker, topic: str) -> Iterator[tuple[int, bytes | None, dict[str, Any]]]:
    """Partition, key and change of every committed record, each partition in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "plain",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=120).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        left = len(partitions)
        while left:
            message = consumer.poll(90)
            assert message is not None, "an open transaction blocks the consumer"
            if message.error() is None:
                assert not message.headers(), "a plain record has no header of lakelog"
                yield message.partition(), message.key(), json.loads(message.value())
            else:
                left -= 1
    finally:
        consumer.close()


def folded(kafka: KafkaBroker, topic: str) -> dict[bytes | None, dict[str, Any]]:
    """The rows by key that a plain consumer ends with."""
    state: dict[bytes | None, dict[str, Any]] = {}
    for _, key, change in committed(kafka, topic):
        if change["op"] == "d":
            state.pop(key, None)
        else:
            state[key] = change["after"]
    return state


def ids(kafka: KafkaBroker, topic: str) -> list[int]:
    return sorted(change["after"]["id"] for _, _, change in committed(kafka, topic))


def address(kafka: KafkaBroker, topic: str) -> str:
    return f"kafka://{kafka.bootstrap}/{topic}"


def run(table: Table, to: str, **how: Any) -> int:
    """Mirrors up to the end of the log; returns the number of rows."""
    return sum(done.rows for done in table.mirror(to, stop="latest", **how))


def write(table: Table, *new: int, **how: Any) -> None:
    table.write(rows(*new, **how))


def mirrored_beside(tmp_path: Path, to: str) -> tuple[threading.Thread, list[Exception]]:
    """A thread that mirrors ``db.t`` without end and has begun, and the error that ends it."""
    failed: list[Exception] = []
    begun = threading.Event()

    def follow() -> None:
        with connect(warehouse=str(tmp_path / "warehouse")) as lake:
            try:
                for _ in lake.table("db.t").mirror(to):
                    begun.set()
            except Exception as why:
                failed.append(why)

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(120)
    return thread, failed
