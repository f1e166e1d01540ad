"""The buckets that Spark computes are those of the format, and a write puts the rows of a bucket into one file."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from lakelog.catalog.base import Identifier
from lakelog.paimon.rows.bucket import bucket_of_rows
from lakelog.paimon.schema.changes import SetOption
from lakelog.spark.compat.arrow import collected
from lakelog.spark.write.shuffle import shuffled, with_bucket

KEYS = [
    {"id": ("bigint", "id * 1234567890123")},
    {"id": ("int", "cast(id * 1234567 as int)"), "day": ("date", "date_add(date'2000-01-01', cast(id as int))")},
    {"id": ("string", "concat('key ', id)")},
    # the frame has another type than the table
    {"id": ("decimal(10, 2)", "cast(id as int)")},
]


@pytest.mark.parametrize("columns", KEYS, ids=lambda columns: " ".join(kind for kind, _ in columns.values()))
def test_the_bucket_of_a_row_is_the_same_in_spark(lake, spark, columns) -> None:
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    key = f"primary key ({', '.join(columns)})"
    lake.sql(f"create table db.t ({declared}, {key}) using lakelog tblproperties ('bucket' = '7')")
    table = lake._tables.open(Identifier("db", "t"))
    frame = spark.range(-300, 300).selectExpr(*(f"{given} as {name}" for name, (_, given) in columns.items()))
    found = with_bucket(frame, table, "bucket")
    typed = found.selectExpr(*(f"cast({name} as {kind}) as {name}" for name, (kind, _) in columns.items()), "bucket")
    rows = collected(typed).combine_chunks()
    keys = rows.drop_columns(["bucket"]).to_batches()[0]
    assert rows["bucket"].to_pylist() == bucket_of_rows(keys, table.schema).tolist()
    assert set(rows["bucket"].to_pylist()) == set(range(7))


def test_a_write_makes_one_file_for_each_bucket(lake, spark) -> None:
    options = "tblproperties ('bucket' = '3', 'write-only' = 'true', 'write.shuffle' = 'bucket')"
    lake.sql(f"create table db.t (id bigint, v string, primary key (id)) using lakelog {options}")
    # rows above a megabyte of a bucket are files of the tasks
    frame = spark.range(30_000).repartition(4).selectExpr("id", "repeat(cast(id as string), 40) as v")
    frame.createOrReplaceTempView("many_parts")

    def files_of(write) -> int:
        before = len(lake.table("db.t").logical.store.live_entries(lake.table("db.t").latest_snapshot()))
        write()
        return len(lake.table("db.t").logical.store.live_entries(lake.table("db.t").latest_snapshot())) - before

    assert files_of(lambda: lake.sql("insert into db.t select * from many_parts")) == 3
    assert files_of(lambda: lake.write(frame, "db.t")) == 3
    assert (
        lake.sql("select count(*), sum(length(v)) from db.t").first()
        == frame.selectExpr("count(*)", "sum(length(v))").first()
    )


def test_a_partitioned_table_is_shuffled_by_partition_and_bucket(lake, spark) -> None:
    lake.sql(
        "create table db.p (day date, id int, v string, primary key (day, id)) using lakelog partitioned by (day) "
        "tblproperties ('bucket' = '2', 'write-only' = 'true', 'write.shuffle' = 'bucket')"
    )
    frame = spark.range(1_000).selectExpr(
        "date_add(date'2024-01-01', cast(id % 5 as int)) as day", "cast(id as int) as id"
    )
    lake.write(frame.repartition(3), "db.p", missing="null")
    table = lake.table("db.p")
    assert table.scan().to_arrow().num_rows == 1_000
    assert len(table.logical.store.live_entries(table.latest_snapshot())) == 10


def test_only_large_writes_are_shuffled_by_default(lake, spark, request) -> None:
    lake.sql("create table db.t (id bigint, primary key (id)) using lakelog tblproperties ('bucket' = '3')")
    table = lake._tables.open(Identifier("db", "t"))

    if is_remote():  # neither the size of a frame nor its tasks are known there
        frames = (shuffled(spark.range(0, 9_000_000, 1, n), table) for n in (2, 4, 7))
        assert [f.select(sf.spark_partition_id()).distinct().count() for f in frames] == [2, 4, 7]
        return
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # the plan says how many tasks there are, before it runs
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.adaptive.enabled"))

    def tasks(frame) -> int:
        return int(shuffled(frame, table)._jdf.queryExecution().executedPlan().outputPartitioning().numPartitions())

    assert tasks(spark.range(0, 3_000, 1, 7)) == 7
    # eight bytes a row are 24 MB
    assert tasks(spark.range(0, 3_000_000, 1, 7)) == 2
    assert tasks(spark.range(0, 9_000_000, 1, 7)) == 3
    # two runs more are no harm; four are none where others compact
    assert tasks(spark.range(0, 9_000_000, 1, 2)) == 2
    assert tasks(spark.range(0, 9_000_000, 1, 4)) == 3
    lake.table("db.t").alter(SetOption("write-only", "true"))
    table = lake._tables.open(Identifier("db", "t"))
    assert tasks(spark.range(0, 9_000_000, 1, 4)) == 4
    assert tasks(spark.range(0, 9_000_000, 1, 5)) == 3
