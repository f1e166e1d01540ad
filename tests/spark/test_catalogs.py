"""Two catalogs in one query, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakelog import Lake, connect


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with connect(spark, warehouse=str(tmp_path / "first")) as opened:
        options = {
            "warehouse": str(tmp_path / "second"),
            "catalog.type": "sql",
            "catalog.uri": f"sqlite:///{tmp_path}/names.db",
        }
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        opened.sql(f"create catalog prod with ({pairs})")
        opened.sql("create table db.orders (id int, product int, n int, primary key (id)) using lakelog")
        opened.sql("create table prod.db.products (id int, name string, primary key (id)) using lakelog")
        opened.sql("insert into prod.db.products values (1, 'tea'), (2, 'milk')")
        opened.sql("insert into db.orders values (10, 1, 5), (11, 2, 6), (12, 1, 7)")
        yield opened


def rows(frame: DataFrame) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_join_and_writes_across_catalogs(lake: Lake) -> None:
    join = "select p.name, sum(o.n) as n from db.orders o join prod.db.products p on o.product = p.id group by p.name"
    assert rows(lake.sql(join)) == [("milk", 6), ("tea", 12)]
    lake.sql(f"create table prod.db.totals using lakelog tblproperties ('primary-key' = 'name') as {join}")
    lake.sql("insert into db.orders select id + 90, id, 1 from prod.db.products")
    lake.sql(
        f"merge into prod.db.totals using ({join}) s on totals.name = s.name and prod.db.totals.n < s.n "
        "when matched then update set n = s.n when not matched then insert *"
    )
    assert rows(lake.sql("select * from prod.db.totals")) == [("milk", 7), ("tea", 13)]
    lake.table("prod.db.totals").update({"n": "n + 1"}, "name = 'tea'")
    lake.sql("use catalog prod; use db; delete from totals where name = 'milk'")
    assert rows(lake.sql("select name, n from totals")) == [("tea", 14)]
    assert rows(lake.sql("select count(*) from lakelog.db.orders")) == [(5,)]


def test_the_data_source_knows_the_catalogs(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    source = spark.read.format("lakelog")
    assert rows(source.load("prod.db.products")) == [(1, "tea"), (2, "milk")]
    assert rows(source.option("catalog", "prod").load("db.products")) == [(1, "tea"), (2, "milk")]
    assert rows(spark.read.format("lakelog").load("lakelog.db.orders")) == [(10, 1, 5), (11, 2, 6), (12, 1, 7)]
    spark.createDataFrame([(3, "salt")], "id int, name string").write.format("lakelog").mode("append").save(
        "prod.db.products"
    )
    assert lake.table("prod.db.products").scan(filter="id = 3").to_arrow()["name"].to_pylist() == ["salt"]
    lake.drop_catalog("prod")
    with pytest.raises(AnalysisException, match="catalog 'prod' does not exist"):
        spark.read.format("lakelog").load("prod.db.products").collect()


def test_a_stream_writes_into_another_catalog(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.sql("create table prod.db.copy (id int, product int, n int, primary key (id)) using lakelog")
    changes = lake.read_stream("db.orders").where("_row_kind in ('+I', '+U')").drop("_row_kind")
    query = lake.write_stream(changes, "prod.db.copy", str(tmp_path / "checkpoint"))
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    lake.table("prod.db.copy").seal()
    assert rows(lake.sql("select id, n from prod.db.copy")) == [(10, 5), (11, 6), (12, 7)]
    assert lake.list_tables() == ["db.orders"]
