"""A log on Kafka that a table gets by ALTER TABLE, and loses again (RFC 27)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from lakelog import connect
from lakelog.errors import CommitConflict
from lakelog.lake.table import Table
from lakelog.service.servers.server_process import KafkaBroker


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [v] * len(ids)})


def changes(table: Table, start: str) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for batch in table.tail(start, stop="latest") for r in batch.to_pylist())


@pytest.mark.parametrize("key", [None, "id"])
def test_a_topic_begins_at_the_present_snapshot_and_stays_or_goes_as_the_option_says(
    tmp_path: Path, kafka: KafkaBroker, key: str | None
) -> None:
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    lake = connect(tmp_path / "warehouse")
    table = lake.create_table("d.t", {"id": "int", "v": "string"}, primary_key=key)
    table.write(rows(1, 2))
    writer = lake.table("d.t").writer()
    writer.write(rows(9))
    kept = table.add_log({"log-store.address": kafka.bootstrap}).log
    with pytest.raises(CommitConflict, match="open the table again"):
        writer.commit()
    table.write(rows(2, 3, v="b"))
    assert changes(table, "earliest") == [(2, "b"), (3, "b")]
    whole = [(1, "a"), (2, "b"), (3, "b")] if key else [(1, "a"), (2, "a"), (2, "b"), (3, "b")]
    assert changes(table, "latest-full") == whole
    table.remove_log().write(rows(5))
    assert kept is not None and kept.topic in client.list_topics(timeout=120).topics
    dropped = table.add_log({"log-store.address": kafka.bootstrap, "log-store.drop-with-table": "true"}).log
    table.write(rows(6))
    assert changes(table, "earliest") == [(6, "a")]
    assert changes(table, "latest-full") == sorted([*whole, (5, "a"), (6, "a")])
    table.remove_log()
    assert dropped is not None and dropped.topic not in client.list_topics(timeout=120).topics
