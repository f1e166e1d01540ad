"""Spark on the views of the files: system tables, the past, changes, and streams without a log."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, UnsupportedFeature
from seen_batches import SeenBatches


@pytest.fixture
def table(lake):
    lake.sql("create database db; create table db.t (id int, name string, primary key (id)) using lakelog")
    write(lake, {1: "a", 2: "b"})
    write(lake, {2: "bb", 3: "c"})
    return lake.table("db.t")


def write(lake, rows: dict[int, str]) -> None:
    lake.table("db.t").write(pa.table({"id": pa.array(rows, pa.int32()), "name": list(rows.values())}))


def rows(frame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.usefixtures("table")
def test_sql_reads_system_tables_the_past_and_changes(lake) -> None:
    assert rows(lake.sql("select snapshot_id, commit_kind from db.`t$snapshots`")) == [(1, "APPEND"), (2, "APPEND")]
    assert rows(lake.sql("select t$files.level, count(*) from db.t$files group by all")) == [(0, 2)]
    assert rows(lake.sql("select rowkind, name[0] from db.t$binlog where rowkind = '+I' and id[0] > 2")) == [
        ("+I", "c")
    ]
    assert rows(lake.sql("select * from db.t version as of 1")) == [(1, "a"), (2, "b")]
    assert rows(lake.sql("select name from db.t timestamp as of '2999-01-01' x where x.id = 2")) == [("bb",)]
    changes = "select id, _row_kind from db.t /*+ OPTIONS('incremental-between'='1,2') */"
    assert rows(lake.sql(changes)) == [(2, "+I"), (3, "+I")]
    with pytest.raises(UnsupportedFeature, match=r"db\.t\$snapshots is a system table"):
        lake.sql("insert into db.t$snapshots values (1)")


def test_a_frame_of_a_system_table_is_pruned_by_its_filter(table, lake) -> None:
    frame = lake.table("db.t$snapshots").to_spark(columns=["commit_kind"], filter="snapshot_id = 2")
    assert rows(frame) == [("APPEND",)]
    assert table.to_spark(filter="id = 3").count() == 1


def test_a_stream_of_the_files_goes_on_where_it_stopped(table, lake, tmp_path) -> None:
    def run(name: str) -> list[tuple]:
        seen = SeenBatches(tmp_path / name)
        stream = lake.read_stream("db.t", {"consumer-id": "me"}).writeStream.trigger(availableNow=True)
        stream = stream.foreachBatch(seen.take)
        stream.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        return sorted(seen.tuples())

    assert run("first") == [(1, "a", "+I"), (2, "bb", "+I"), (3, "c", "+I")]
    write(lake, {4: "d"})
    write(lake, {1: "aa"})
    assert run("second") == [(1, "aa", "+I"), (4, "d", "+I")]
    consumers = lake.table("db.t$consumers").scan().to_arrow().to_pylist()
    assert [c["consumer_id"] for c in consumers] == ["me"]
    assert [p.next for p in table.stream_plan(from_snapshot=consumers[0]["next_snapshot_id"])] == [4, 5]


@pytest.mark.usefixtures("table")
def test_changes_of_a_keyed_table_need_their_kinds(lake, spark, tmp_path) -> None:
    frame = spark.readStream.format("lakelog").load("db.t")
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="need a column '_row_kind': use lake.read_stream") as refusal:
        query.awaitTermination(120)
    assert InvalidRequest.__name__ in str(refusal.value)
