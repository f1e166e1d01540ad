"""Plain ``spark.sql`` of a session that a lake is attached to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog
from lakelog import Lake
from lakelog.errors import NotFound
from lakelog.table.read.time_travel import SESSION_ZONE, zone_of


@pytest.fixture
def lake(spark: SparkSession, tmp_path) -> Iterator[Lake]:
    with lakelog.attach(spark, warehouse=str(tmp_path / "warehouse")) as opened:
        yield opened


def rows(frame: DataFrame) -> list[tuple]:
    return [tuple(row) for row in frame.collect()]


def test_statements_answer_with_dataframes(lake, spark) -> None:
    assert rows(spark.sql("create database db")) == []
    spark.sql("create table db.t (id int, name string, primary key (id)) using lakelog")
    assert rows(spark.sql("insert into db.t values (1, 'a'), (2, 'b'), (3, 'c')")) == [(3, 0, 0, 3)]
    assert rows(spark.sql("update db.t set name = upper(name) where id = 2")) == [(1, 1, 0, 0)]
    assert rows(spark.sql("select id, name from db.t order by id")) == [(1, "a"), (2, "B"), (3, "c")]
    assert rows(spark.sql("show tables in db").select("tableName")) == [("t",)]
    assert spark.sql("describe history db.t").where("operation = 'APPEND'").count() == 2
    assert rows(spark.sql("select 1 + 1 as two")) == [(2,)]


def test_parameters_and_frames(lake, spark) -> None:
    spark.sql("create table db.t (id int, name string, primary key (id)) using lakelog")
    more = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id int, name string")
    spark.sql("insert into db.t select * from {more} where id <> :left_out", {"left_out": 2}, more=more)
    assert rows(spark.sql("select name from db.t where id >= ? and name <> ?", [1, "a"])) == [("c",)]
    assert rows(spark.sql("select name from db.t where id = :id", args={"id": 3})) == [("c",)]
    spark.sql("delete from db.t where id = :id", args={"id": 3})
    spark.sql(
        "merge into db.t using {more} s on t.id = s.id when matched then update set name = concat(s.name, :end) "
        "when not matched and s.id = :only then insert *",
        {"end": "!", "only": 2},
        more=more,
    )
    assert rows(spark.sql("select * from db.t order by id")) == [(1, "a!"), (2, "b")]


def test_the_end_of_the_lake_is_the_end_of_its_statements(spark, tmp_path) -> None:
    with lakelog.attach(spark, warehouse=str(tmp_path / "a")) as first:
        spark.sql("create table db.t as select 1 as id")
        second = lakelog.attach(spark, warehouse=str(tmp_path / "b"))
        with pytest.raises(NotFound, match="'db.t' does not exist"):
            spark.sql("select * from db.t")
        second.close()
        first.attach()
        assert rows(spark.sql("select * from db.t")) == [(1,)]
    assert "sql" not in vars(spark) and rows(spark.sql("select 2")) == [(2,)]


@pytest.mark.parametrize("zone", ["-11:00", "+14:00"])
def test_a_time_without_a_zone_is_in_that_of_the_session_in_options_and_procedures_too(
    spark: SparkSession, tmp_path, zone: str
) -> None:
    session = spark.newSession()
    session.conf.set(SESSION_ZONE, zone)
    with lakelog.attach(session, warehouse=str(tmp_path / "warehouse")) as lake:
        session.sql("create table db.t (id int, primary key (id)) using lakelog")
        for number in (1, 2):
            session.sql(f"insert into db.t values ({number})")
        first = lake.table("db.t").logical.store.snapshot(1).time_millis
        then = datetime.fromtimestamp(first / 1000, zone_of(zone)).replace(tzinfo=None).isoformat(sep=" ")
        read = session.read.format("lakelog").option("scan.timestamp", then).load("db.t")
        assert rows(read) == rows(session.sql(f"select * from db.t timestamp as of '{then}'")) == [(1,)]
        assert rows(session.sql(f"call sys.expire_tags(table => 'db.t', older_than => '{then}')")) == []
        session.sql("call sys.create_tag(table => 'db.t', tag => 'one', snapshot => 1)")
        assert rows(session.sql(f"call sys.expire_tags(table => 'db.t', older_than => '{then}')")) == []
