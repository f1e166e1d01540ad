"""What a user does with one table in a day, with the lines that each Spark has for it: batches, statements, streams."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog import Lake
from lakelog.spark.compat.natives import DATA_SOURCES

CREATE = """create table shop.orders (id bigint, item string, price decimal(10,2), at timestamp, tags array<string>,
primary key (id)) using lakelog
tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '200 ms')"""
MERGE = """merge into shop.orders t using news s on t.id = s.id when matched then update set item = s.item
when not matched then insert (id, item, price) values (s.id, s.item, 9.99)"""
READS = {
    "files": ({}, {"+I": 1_092}),
    "log": ({"read.mode": "log", "scan.startup.mode": "earliest"}, {"+I": 1_113, "-D": 10}),
    "files, then log": ({"read.mode": "log", "scan.startup.mode": "latest-full"}, {"+I": 1_092}),
}


def kinds_of(lake: Lake, options: dict[str, str], checkpoint: Path) -> dict[str, int]:
    """Rows by kind of a stream of all that is there."""
    kinds: dict[str, int] = {}

    def take(batch: DataFrame, _: int) -> None:
        for row in batch.groupBy("_row_kind").count().collect():
            kinds[row[0]] = kinds.get(row[0], 0) + row[1]

    changes = lake.read_stream("shop.orders", options)
    if DATA_SOURCES:
        writer = changes.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        changes.foreach_batch(take, str(checkpoint), available_now=True).awaitTermination()
    return kinds


def count(lake: Lake, text: str) -> int:
    found: int = lake.sql(f"select count(*) from {text}").collect()[0][0]
    return found


@pytest.mark.local_only("the micro-batches come to this process")
def test_batches_statements_and_streams_of_one_table(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.sql("create database shop")
    lake.sql(CREATE)
    rows = spark.range(1_000).selectExpr("id", "concat('item', id % 7) item", "cast(id * 1.25 as decimal(10,2)) price")
    lake.write(rows.selectExpr("*", "timestamp'2026-01-01' at", "array('a', cast(id as string)) tags"), "shop.orders")
    lake.sql("insert into shop.orders values (1000, 'new', 1.5, timestamp'2026-01-02', null)")
    lake.sql("update shop.orders set price = price + 1 where id < 10")
    lake.sql("delete from shop.orders where id between 20 and 29")
    spark.createDataFrame([(1, "x"), (5000, "y")], "id bigint, item string").createOrReplaceTempView("news")
    lake.sql(MERGE)
    query = "select id, item, price, tags from shop.orders where id in (1, 25, 5000) order by id"
    one, other = lake.sql(query).collect()
    assert tuple(one) == (1, "x", Decimal("2.25"), ["a", "1"])
    assert tuple(other) == (5000, "y", Decimal("9.99"), None)
    assert (count(lake, "shop.orders"), count(lake, "shop.orders version as of 1")) == (992, 1_000)
    assert count(lake, "shop.orders$snapshots") == 5

    source = tmp_path / "in"
    source.mkdir()
    (source / "1.json").write_text("\n".join(json.dumps({"id": 10_000 + i, "item": "s"}) for i in range(100)))
    arrived = spark.readStream.schema("id bigint, item string").json(str(source))
    arrived = arrived.selectExpr("*", "2.5 price", "timestamp'2026-02-02' at", "array('q') tags")
    written = lake.write_stream(arrived, "shop.orders", str(tmp_path / "out"))
    written.processAllAvailable()
    assert count(lake, "shop.orders /*+ OPTIONS('read.mode'='union') */") == 1_092
    written.stop()
    lake.table("shop.orders").seal()
    for name, (options, kinds) in READS.items():
        assert kinds_of(lake, options, tmp_path / name) == kinds, name

    asked = spark.createDataFrame([(1,), (25,)], "asked bigint")
    joined = lake.lookup_join(asked, "shop.orders", on={"asked": "id"}, how="left", columns=["item"])
    assert sorted(map(tuple, joined.collect())) == [(1, "x"), (25, None)]
    lake.sql("call sys.compact(table => 'shop.orders')")
    assert count(lake, "shop.orders") == lake.table("shop.orders").scan().to_arrow().num_rows == 1_092
