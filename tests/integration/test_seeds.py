"""Every SQL statement of the documents that define lakelog, verbatim but for the address, on a real Kafka."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import AlreadyExists, UnsupportedStatement
from lakelog.spark.engine.streaming_query import iterate_stream

PAIRS = Path(__file__).with_name("seeds.sql")


def statements(kafka) -> dict[str, str]:
    """Name → statement, from the file of pairs; the address is the broker's."""
    out: dict[str, str] = {}
    for block in PAIRS.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = block.partition("\n")
        out[name.strip()] = text.strip().replace("localhost:9092", kafka.bootstrap)
    return out


@pytest.fixture
def lake(tmp_path, kafka, spark):
    from confluent_kafka.admin import AdminClient

    with connect(spark, warehouse=str(tmp_path / "warehouse")) as opened:
        yield opened
        for name in opened.list_tables():
            opened.sql(f"drop table {name} purge")
    left = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=120).topics
    assert "topic_log_test" not in left, "PURGE drops the topic"


@pytest.mark.parametrize("dialect", ["spark zh", "flink zh", "spark en", "flink en"])
def test_create_table_makes_the_table_and_its_topic(lake, kafka, dialect) -> None:
    from confluent_kafka.admin import AdminClient

    lake.sql(statements(kafka)[f"create {dialect}"])
    described = lake.table("db.log_table").describe()
    assert [(n, t) for n, t, _ in described][:2] == [("id", "int"), ("name", "string")]
    assert lake.table("db.log_table").primary_keys == ("id",)
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=120).topics
    assert len(topics["topic_log_test"].partitions) == 1
    with pytest.raises(AlreadyExists):
        lake.sql(statements(kafka)[f"create {dialect}"])


def test_select_with_the_log_hint_is_a_consistent_stream(lake, kafka) -> None:
    texts = statements(kafka)
    lake.sql(texts["create spark zh"].replace("db.log_table", "db.arctic"))
    frame = lake.sql(texts["select log"])
    assert frame.isStreaming and "_row_kind" in frame.columns
    rows = iterate_stream(frame, seconds=170, limit=1)
    seen = threading.Event()
    five = {"id": pa.array([5], pa.int32()), "name": ["five"], "ts": pa.nulls(1, pa.timestamp("us", "UTC"))}

    def write() -> None:
        # the stream begins with what comes after its start, and nobody tells when that is
        while not seen.is_set():
            lake.table("db.arctic").write(pa.table(five))
            seen.wait(2)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        first = next(rows)
    finally:
        seen.set()
        writing.join()
    assert (first["id"][0].as_py(), first["name"][0].as_py()) == (5, "five")
    rows.close()


def test_insert_with_emit_mode_log_fills_the_log_only(lake, kafka) -> None:
    texts = statements(kafka)
    lake.sql(texts["create spark en"])
    lake.spark.sql("select 1 as id, 'a' as name, timestamp'2024-01-01 00:00:00' as ts").createOrReplaceTempView(
        "sourceTable"
    )
    lake.sql(texts["insert log"])
    assert lake.table("db.log_table").scan().to_arrow().num_rows == 0, "'log' alone writes no files"
    rows = pa.Table.from_batches(lake.table("db.log_table").tail("earliest", stop="latest"))
    assert rows["name"].to_pylist() == ["a"]


def test_a_table_with_the_guarantee_as_property(lake, kafka) -> None:
    text = statements(kafka)["create guarantee"]
    with pytest.raises(UnsupportedStatement, match=r"\.\.\."):
        lake.sql(text)
    lake.sql(text.replace("...", "id int, name string"))
    assert lake.table("db.arctic").options["log-store.consistency-guarantee.enabled"] == "true"
