"""Overwrites on Spark: static and dynamic partitions, the whole table, truncate, drop partition, delete, analyze."""

from __future__ import annotations

import datetime

import pytest
from pyspark.errors import AnalysisException

from lakelog.errors import InvalidRequest, UnsupportedFeature


def rows(frame) -> list[tuple]:
    return sorted(tuple(r) for r in frame.collect())


def test_an_overwrite_replaces_only_its_named_partitions(lake, spark) -> None:
    lake.sql("create database db; use db")
    lake.sql(
        "create table p (id int, day date, v string, primary key (day, id)) using lakelog partitioned by (day) "
        "tblproperties ('bucket' = '2')"
    )
    for day in (1, 2, 3):
        lake.sql(f"insert into p partition (day = '2024-01-0{day}') select cast(id as int), 'old' from range(3)")
    lake.sql("insert overwrite p partition (day = date'2024-01-01') values (7, 'new')")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    lake.sql("insert overwrite p values (8, date'2024-01-02', 'dynamic')")
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(lake.sql("select day(day), id, v from p where day < '2024-01-03'")) == [
        (1, 7, "new"),
        (2, 8, "dynamic"),
    ]
    frame = spark.sql("select 9 as id, date'2024-01-09' as day, 'frame' as v")
    frame.write.format("lakelog").mode("overwrite").save("db.p")
    assert {r[0] for r in rows(lake.sql("select day(day) from p"))} == {1, 2, 3, 9}
    lake.sql("alter table p drop partition (day = '2024-01-03'), partition (day = '2024-01-09')")
    lake.sql("delete from p where day < '2024-01-02'")
    assert rows(lake.sql("select id from p")) == [(8,)]
    lake.sql("analyze table p compute statistics for all columns")
    assert lake.table("p").statistics().columns["v"].max_len == 7
    frame.write.format("lakelog").mode("overwrite").option("dynamic-partition-overwrite", "false").save("db.p")
    assert rows(lake.sql("select id from p")) == [(9,)]
    lake.sql("truncate table p")
    assert rows(lake.sql("select id from p")) == []
    with pytest.raises(AnalysisException, match="JSON object"):
        frame.write.format("lakelog").mode("overwrite").option("overwrite.partition", "day=1").save("db.p")


def test_a_lake_overwrites_with_a_frame_as_with_rows_of_this_process(lake, spark) -> None:
    lake.create_table("db.p", {"id": "int", "day": "date"}, partition_by="day")

    def frame(number: int, day: int):
        return spark.sql(f"select {number} as id, date'2024-01-0{day}' as day")

    lake.write(frame(1, 1).union(frame(2, 2)), "db.p")
    counts = lake.write(frame(3, 1), "db.p", overwrite=True)
    assert (counts["num_inserted_rows"], counts["num_deleted_rows"]) == (1, None)
    assert rows(lake.sql("select id, day(day) from db.p")) == [(2, 2), (3, 1)]
    lake.write(frame(4, 2), "db.p", overwrite={"day": datetime.date(2024, 1, 2)})
    assert rows(lake.sql("select id, day(day) from db.p")) == [(3, 1), (4, 2)]
    lake.write(frame(5, 5), "db.p", {"dynamic-partition-overwrite": "false"}, overwrite=True)
    assert rows(lake.sql("select id, day(day) from db.p")) == [(5, 5)]
    with pytest.raises(InvalidRequest, match="write_stream"):
        lake.write(spark.readStream.format("rate").load(), "db.p", overwrite=True)


def test_many_tasks_overwrite_as_one_snapshot(lake) -> None:
    lake.sql("create database db; use db")
    lake.sql("create table t (id bigint, v string, primary key (id)) using lakelog tblproperties ('bucket' = '2')")
    lake.sql("insert into t select id, 'old' from range(0, 1000, 1, 4)")
    before = lake.table("t").latest_snapshot().id
    lake.sql("insert overwrite t select id, repeat('n', 2000) from range(0, 4000, 1, 4)")
    assert lake.table("t").latest_snapshot().id in (before + 1, before + 2)
    assert lake.sql("select count(*), count(distinct id), min(v) = max(v) from t").first() == (4000, 4000, True)


def test_a_use_of_the_log_alone_and_a_stream_are_refused(lake, spark) -> None:
    lake.sql("create database db; use db")
    lake.sql("create table l (id int) using lakelog tblproperties ('log-store.enabled' = 'true')")
    lake.sql("create table t (id int) using lakelog")
    with pytest.raises(UnsupportedFeature, match=r"'emit\.mode' = 'log'"):
        lake.sql("insert overwrite l /*+ OPTIONS('emit.mode'='log') */ values (1)")
    lake.sql("insert overwrite l /*+ OPTIONS('emit.mode'='file') */ values (1)")
    assert rows(lake.sql("select id from l")) == [(1,)]
    with pytest.raises(InvalidRequest, match="not a stream"):
        lake.sql("insert overwrite t select id from l /*+ OPTIONS('read.mode'='log') */")


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_an_overwrite_of_a_table_with_a_key_reaches_its_log(lake, mode: str) -> None:
    lake.sql("create database db; use db")
    lake.sql(
        "create table k (p int, id int, v string, primary key (p, id)) using lakelog partitioned by (p) "
        f"tblproperties ('log-store.enabled' = 'true', 'log.changelog-mode' = '{mode}')"
    )
    lake.sql("insert into k select id % 2, id, 'old' from range(0, 400, 1, 4)")
    lake.sql("insert overwrite k partition (p = 1) select id, 'new' from range(399, 402, 1, 2)")
    lake.spark.createDataFrame([(2, 7, "frame")], "p int, id int, v string").write.format("lakelog").mode(
        "append"
    ).save("db.k")
    lake.sql("alter table k drop partition (p = 2)")
    found: dict[int, str] = {}
    for batch in lake.table("db.k").tail("earliest", stop="latest"):
        for row in batch.to_pylist():
            found.pop(row["id"], None)
            if row["_row_kind"] in ("+I", "+U"):
                found[row["id"]] = row["v"]
    wanted = dict.fromkeys(range(0, 400, 2), "old") | dict.fromkeys((399, 400, 401), "new")
    stored = {row["id"]: row["v"] for row in lake.table("db.k").scan().to_arrow().to_pylist() if row["p"] == 1}
    assert stored == dict.fromkeys((399, 400, 401), "new")
    assert sorted(found.items()) == sorted(wanted.items())


def test_tasks_share_the_dynamic_buckets_of_a_table(lake) -> None:
    lake.sql("create database db; use db")
    lake.sql(
        "create table d (id bigint, v string, primary key (id)) using lakelog "
        "tblproperties ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '300')"
    )
    lake.sql("insert into d select id, 'old' from range(0, 1000, 1, 4)")
    lake.sql("insert into d select id, 'new' from range(500, 1500, 1, 4)")
    assert rows(lake.sql("select v, count(*), count(distinct id) from d group by v")) == [
        ("new", 1000, 1000),
        ("old", 500, 500),
    ]
    inner = lake.table("d").logical.store
    assert {e.bucket for e in inner.live_entries(inner.latest_snapshot())} == {0, 1, 2, 3, 4}
