"""CREATE TABLE … AS SELECT on real tables."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from lakelog.errors import AlreadyExists, InvalidRequest, NotFound


def test_columns_and_rows_are_the_query_s(lake, spark) -> None:
    lake.sql("create table db.s (id bigint, name string, at timestamp, price decimal(9, 2), tags array<string>)")
    lake.sql(
        "insert into db.s values (1, 'a', timestamp'2024-01-31 10:00:00', 1.5, array('x')), (2, null, null, 2, null)"
    )
    lake.sql(
        "create table db.t using lakelog partitioned by (part) tblproperties ('primary-key' = 'id,part') as "
        "select *, id % 2 as part from db.s"
    )
    table = lake.table("db.t")
    assert table.logical.schema.primary_keys == ("id", "part") and table.logical.schema.partition_keys == ("part",)
    assert [f.type for f in table.schema][:5] == [f.type for f in lake.table("db.s").schema]
    found = lake.sql("select id, name, at, price, tags from db.t order by id").collect()
    assert found == lake.sql("select id, name, at, price, tags from db.s order by id").collect()
    with pytest.raises(AlreadyExists, match=r"db\.t"):
        lake.sql("create table db.t as select 1 as id")
    lake.sql("create table if not exists db.t as select 1 as id")
    assert lake.sql("select count(*) as n from db.t").collect()[0].n == 2


def test_a_query_that_fails_leaves_no_table(lake) -> None:
    with pytest.raises(PySparkException, match="no way"):
        lake.sql("create table db.t as select cast(raise_error('no way') as int) as id from range(3)")
    with pytest.raises(NotFound):
        lake.table("db.t")
    lake.sql("create table db.t as select id from range(3)")
    assert lake.sql("select count(*) as n from db.t").collect()[0].n == 3


def test_a_table_is_replaced_by_a_query_of_itself_and_stays_after_a_failure(lake) -> None:
    lake.sql("create table db.t (id bigint, v int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    lake.sql("insert into db.t values (1, 10), (2, 20)")
    with pytest.raises(PySparkException, match="no way"):
        lake.sql("create or replace table db.t as select cast(raise_error('no way') as int) as x from db.t")
    assert lake.sql("select sum(v) as n from db.t").collect()[0].n == 30
    lake.sql(
        "create or replace table db.t primary key (name) tblproperties ('log-store.enabled' = 'true') as "
        "select cast(id as string) as name, v from db.t"
    )
    lake.sql("insert into db.t values ('2', 7)")
    found = {r["name"]: r["v"] for r in lake.table("db.t").scan().to_arrow().to_pylist()}
    assert found == {"1": 10, "2": 7}
    told = [row["name"] for batch in lake.table("db.t").tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert sorted(told) == ["1", "2", "2"]
    assert lake.list_tables("db") == ["db.t"]
    with pytest.raises(InvalidRequest, match="stream cannot replace"):
        lake.sql("create or replace table db.t as select * from db.t /*+ OPTIONS('read.mode'='log') */")
    assert lake.list_tables("db") == ["db.t"]
    lake.sql("replace table db.t (x int)")
    assert lake.table("db.t").scan().to_arrow().num_rows == 0
