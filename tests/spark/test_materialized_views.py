"""Materialized views in Spark: those that only Spark computes, attached sessions, streams and frames as sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakelog
from lakelog import Lake, connect
from lakelog.errors import InvalidRequest, LakelogError, UnsupportedFeature
from lakelog.table.views.definition import ROW_KEY
from view_world import HIGHER, SHAPES, TABLES, TOP, folded, sorted_rows

OPTIONS = "tblproperties ('bucket' = '1', 'bucket-key' = '{key}', 'commit.interval' = '1 ms')"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("create table db.items (id int, k string, v double, tags array<string>, primary key (id))")
    lake.sql(
        "insert into db.items values (1, 'p', 1.5, array('x', 'y')), (2, 'p', 2.5, array()), (3, 'Qß', -1, null), "
        "(4, null, 4, array('z'))"
    )
    return lake


def rows(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows of a view in its files, which its log adds up to."""
    table = lake.table(name)
    columns = [c for c in table.schema.names if c != ROW_KEY]
    found = sorted_rows(table.scan(columns).to_arrow().to_pylist())
    assert sorted_rows(folded(table, columns)) == found
    return found


def asked(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query in Spark."""
    return sorted_rows(lake.sql(query).toArrow().to_pylist())


def change(lake: Lake) -> None:
    lake.sql("update db.items set v = v + 10, tags = array('new') where id in (1, 4)")
    lake.sql("delete from db.items where id = 2")
    lake.sql("insert into db.items values (5, 'r', 7, array('x')), (6, 'p', 8, null)")


BY_SPARK = (
    "select k, stddev(v) as s, percentile(v, 0.5) as p, sort_array(collect_list(v)) as l from db.items group by k",
    "select id, upper(k) as u, regexp_replace(k, '[a-z]', '-') as r, tags, size(tags) as n from db.items",
    "select id, named_struct('a', v, 'b', tags) as s, map('k', k) as m from db.items where exists(tags, t -> t <> 'q')",
    "select k, count(*) as c from db.items where soundex(k) <> 'none' or k is null group by k",
    "select max(cbrt(abs(v))) as m from db.items",
)


@pytest.mark.parametrize("query", BY_SPARK)
def test_a_view_that_only_spark_computes_follows_its_source(shop: Lake, query: str) -> None:
    shop.sql(f"create materialized view db.v as {query}")
    assert "computed by: Spark, because of" in shop.views.explain("db.v")
    assert rows(shop, "db.v") == asked(shop, query)
    change(shop)
    done = shop.views.refresh("db.v")
    assert done.is_whole
    assert rows(shop, "db.v") == asked(shop, query)
    assert shop.views.refresh("db.v").is_current
    shop.table("db.items").truncate()
    shop.views.refresh("db.v")
    assert rows(shop, "db.v") == asked(shop, query)


def test_spark_goes_on_from_a_value_that_only_it_computes(shop: Lake) -> None:
    query = "select id, upper(k) as u, tags from db.items"
    shop.sql("delete from db.items where id = 3")  # whose ß has another upper case in DuckDB
    shop.sql(f"create materialized view db.v as {query}")
    shop.sql("insert into db.items values (3, 'Qß', -1, null)")
    done = shop.views.refresh("db.v")
    assert (done.rows, done.is_whole) == (1, True), "rows that stay are not written again"
    assert rows(shop, "db.v") == asked(shop, query)
    shop.sql("update db.items set k = 'new' where id = 1")
    assert shop.views.refresh("db.v").rows == 1
    assert rows(shop, "db.v") == asked(shop, query)


def test_views_over_views_are_refreshed_by_a_runner_and_after_a_restart(
    shop: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    base = "select id, upper(k) as u, v from db.items"
    over = "select u, sum(v) as s, count(*) as c from db.a group by u"
    top = "select c, collect_set(u) as us from db.b group by c"
    shop.sql(f"create materialized view db.a as {base}")
    shop.sql(f"create materialized view db.b as {over}")
    shop.sql(f"create materialized view db.c as {top}")
    assert "this process (DuckDB)" in shop.views.explain("db.b")
    change(shop)
    run = shop.views.run()
    seen = {next(run).view for _ in range(3)}
    run.close()
    assert seen == {"db.a", "db.b", "db.c"}
    for name, query in (("a", base), ("b", over), ("c", top)):
        assert rows(shop, f"db.{name}") == asked(shop, query)
    shop.sql("delete from db.items where id = 5")
    again = connect(spark, warehouse=str(tmp_path / "warehouse"))
    run = again.views.run()
    assert {next(run).view for _ in range(3)} == {"db.a", "db.b", "db.c"}
    run.close()
    for name, query in (("a", base), ("b", over), ("c", top)):
        assert rows(again, f"db.{name}") == asked(again, query)


def test_every_shape_of_query_has_the_rows_of_spark(lake: Lake) -> None:
    lake.sql("create database db")
    for name, columns in TABLES.items():
        lake.sql(f"create table db.{name} ({columns}) {OPTIONS.format(key='k' if name == 'e' else 'id')}")
    lake.sql("insert into db.a values (1, 'p', 1), (2, 'q', 4), (3, '', 4), (4, null, 6), (5, 'rs', null), (6, 'p', 2)")
    lake.sql("insert into db.b values (1, 1, 4, 1), (2, 1, 6, 1), (3, null, 2, 0), (4, 9, null, 3), (5, 6, 3, 2)")
    lake.sql("insert into db.e values ('p', 4), ('p', 4), (null, 1), ('', null), ('q', 6)")
    queries = {"v0": SHAPES[2], "v1": SHAPES[13], "v2": HIGHER[0]}
    queries |= {f"w{at}": query for at, query in enumerate([*SHAPES, *HIGHER, TOP])}
    for name, query in queries.items():
        lake.sql(f"create materialized view db.{name} as {query}")
        assert "this process" in lake.views.explain(f"db.{name}")
        assert rows(lake, f"db.{name}") == asked(lake, query), query
    lake.sql("insert into db.a values (2, 'p', 5), (7, null, 4)")
    lake.sql("delete from db.b where id = 2")
    lake.sql("insert into db.b values (6, 5, 4, 4)")
    lake.sql("delete from db.e where v = 4")
    for name, query in queries.items():
        lake.views.refresh(f"db.{name}")
        assert rows(lake, f"db.{name}") == asked(lake, query), query


def test_a_query_that_spark_refuses_leaves_no_view(shop: Lake) -> None:
    refused = {
        "select id, no_such_function(k) as x from db.items": LakelogError,
        "select id, no_such_column as x from db.items": LakelogError,
        "select id, upper(k) as x, rand() as r from db.items": UnsupportedFeature,
        "select upper(k) as x from db.items": UnsupportedFeature,
        "select id, explode(tags) as t from db.items": LakelogError,
    }
    for query, kind in refused.items():
        with pytest.raises(kind):
            shop.sql(f"create materialized view db.bad as {query}")
    with pytest.raises(LakelogError, match="CAST_INVALID_INPUT|cast"):
        shop.sql("create materialized view db.bad as select id, cast(k as int) as n from db.items")
    assert shop.views.list() == []
    assert "bad" not in shop.list_tables("db")


def test_a_source_is_written_by_a_stream_and_by_frames(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.sql(
        "create table db.s (id int, k string, v int, primary key (id)) tblproperties ('log-store.enabled' = 'true')"
    )
    query = "select k, sum(v) as s, count(*) as c from db.s group by k"
    by_spark = "select id, upper(k) as u from db.s"
    lake.sql(f"create materialized view db.v as {query}")
    lake.sql(f"create materialized view db.w as {by_spark}")
    place = tmp_path / "incoming"
    frame = spark.createDataFrame([(1, "p", 1), (2, "q", 2), (3, "p", 3)], "id int, k string, v int")
    frame.write.parquet(str(place))
    stream = spark.readStream.schema(frame.schema).parquet(str(place))
    for values in ([(1, "q", 5), (4, "r", 6)], [(2, "p", 7)]):
        running = lake.write_stream(stream, "db.s", str(tmp_path / "checkpoint"))
        running.processAllAvailable()
        for name, text in (("v", query), ("w", by_spark)):
            lake.views.refresh(f"db.{name}")
            assert rows(lake, f"db.{name}") == asked(lake, text)
        running.stop()
        lake.write(spark.createDataFrame(values, "id int, k string, v int"), "db.s")
        for name, text in (("v", query), ("w", by_spark)):
            lake.views.refresh(f"db.{name}")
            assert rows(lake, f"db.{name}") == asked(lake, text)
        spark.createDataFrame(values, frame.schema).write.mode("append").parquet(str(place))


@pytest.fixture
def attached(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with lakelog.attach(spark, str(tmp_path / "attached")) as opened:
        yield opened


def test_statements_of_an_attached_session(attached: Lake, spark: SparkSession) -> None:
    spark.sql("create table db.t (id int, k string, primary key (id)) using lakelog")
    spark.sql("insert into db.t values (1, 'a'), (2, 'b')")
    spark.sql("create materialized view db.v as select k, count(*) as c from db.t group by k")
    spark.sql("create materialized view db.w as select id, upper(k) as u from db.t")
    spark.sql("insert into db.t values (2, 'a')")
    assert spark.sql("refresh materialized view db.v").collect()[0][0] > 0
    spark.sql("refresh materialized view db.w")
    assert sorted(map(tuple, spark.sql("select k, c from db.v").collect())) == [("a", 2)]
    assert sorted(map(tuple, spark.sql("select id, u from db.w").collect())) == [(1, "A"), (2, "A")]
    assert [row.viewName for row in spark.sql("show materialized views in db").collect()] == ["v", "w"]
    with pytest.raises(LakelogError, match="no primary key|needs"):
        spark.sql("create materialized view db.x as select k from db.t")
    with pytest.raises(InvalidRequest, match="is no materialized view"):
        spark.sql("drop materialized view db.t")
    spark.sql("drop materialized view db.v")
    assert attached.views.list() == ["db.w"]
