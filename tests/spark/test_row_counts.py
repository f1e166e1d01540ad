"""The number of changed rows, as statements on Spark return it; UPDATE, DELETE and MERGE are in test_row_changes."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from lakelog import Lake

TABLES = {
    "keyed": ("primary key (id)", "'bucket' = '2'"),
    "logged": ("primary key (id)", "'bucket' = '1', 'log-store.enabled' = 'true', 'log.changelog-mode' = 'all'"),
    "rows": ("", "'bucket' = '-1'"),
    "shuffled": ("primary key (id)", "'bucket' = '3', 'write.shuffle' = 'bucket'"),
}


def counts(updated: int = 0, deleted: int | None = 0, inserted: int = 0) -> dict[str, int | None]:
    return {
        "num_affected_rows": None if deleted is None else updated + deleted + inserted,
        "num_updated_rows": updated,
        "num_deleted_rows": deleted,
        "num_inserted_rows": inserted,
    }


def made(lake: Lake, kind: str) -> None:
    key, options = TABLES[kind]
    lake.sql(f"create table db.t (id int, n int{', ' + key if key else ''}) tblproperties ({options})")


def result(lake: Lake, text: str) -> dict[str, int | None]:
    (row,) = lake.sql(text).to_arrow().to_pylist()
    return row


@pytest.mark.parametrize("kind", TABLES)
def test_an_insert_counts_its_rows_in_every_task(lake: Lake, kind: str) -> None:
    made(lake, kind)
    assert result(lake, "insert into db.t select id, id % 7 from range(0, 1000, 1, 5)") == counts(inserted=1000)
    assert result(lake, "insert into db.t select id, n from db.t where n = 9") == counts()
    come = "select id, 0 from range(900, 1100) where id % 2 = 0"
    found = result(lake, f"insert into db.t replace where id >= 900 and n < 6 or n = 0 {come}")
    old = sum(id >= 900 and id % 7 < 6 or id % 7 == 0 for id in range(1000))
    assert found == counts(deleted=old, inserted=100)
    if kind != "logged":
        assert result(lake, "insert overwrite db.t values (1, 2), (3, 4)") == counts(deleted=None, inserted=2)
    many = lake.run("from range(3) insert into db.t select id, 1 insert into db.t select id, 2 where id > 1")
    assert [part.to_pylist() for part in many] == [[counts(inserted=3)], [counts(inserted=1)]]


def test_a_stream_of_changes_is_counted_by_row_kind(lake: Lake) -> None:
    lake.sql("create table db.s (id int, n int, primary key (id)) tblproperties ('changelog-producer' = 'input')")
    lake.sql("create table db.t (id int, n int, primary key (id))")
    lake.sql("insert into db.s values (1, 1), (2, 2), (3, 3)")
    lake.sql("update db.s set n = 9 where id <= 2")
    lake.sql("delete from db.s where id = 3")
    changes = "select id, n, _row_kind from table_changes('db.s', 1)"
    assert result(lake, f"insert into db.t {changes}") == counts(updated=2, deleted=1, inserted=3)
    assert sorted(map(tuple, lake.sql("select * from db.t").collect())) == [(1, 9), (2, 9)]
    frame = lake.spark.createDataFrame([(1, 0, "-D"), (7, 0, "+I"), (2, 1, "+U")], "id int, n int, _row_kind string")
    assert lake.write(frame, "db.t") == counts(updated=1, deleted=1, inserted=1)


def test_the_session_returns_them_too_and_definitions_return_no_rows(lake: Lake) -> None:
    lake.attach()
    lake.spark.sql("create table db.t (id int) using lakelog")
    done = lake.spark.sql("insert into db.t values (1), (2)")
    assert isinstance(done, DataFrame)
    assert [row.asDict() for row in done.collect()] == [counts(inserted=2)]
    assert [row.asDict() for row in lake.spark.sql("delete from db.t where id = 2").collect()] == [counts(deleted=1)]
    assert lake.spark.sql("create table db.u using lakelog as select * from db.t").columns == []
    assert lake.spark.sql("truncate table db.t").columns == []
    plan = lake.spark.sql("explain update db.u set id = 3").collect()
    assert "UPDATE of table db.u" in plan[0][0] and lake.table("db.u").scan().to_arrow().to_pylist() == [{"id": 1}]
