"""UPDATE, DELETE and MERGE on a temporary view change the rows of its table that it shows."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog import Lake
from lakelog.errors import InvalidRequest

_REST = {"key": ", primary key (id)) tblproperties ('bucket' = '1')", "no key": ")"}


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake.table("db.t").scan().to_arrow().to_pylist())


@pytest.fixture(params=_REST)
def views(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    """A table of three rows, and views of it."""
    lake.run(f"create database db; create table db.t (id int, v int{_REST[request.param]}")
    lake.run("insert into db.t values (1, 10), (2, 20), (3, 30)")
    lake.run("create or replace temporary view whole as select * from db.t")
    lake.run("create or replace temporary view some as select v, id from db.t q where q.v > 10 or q.v = -1 -- few")
    return lake


def test_the_rows_that_a_view_shows_are_changed(views: Lake) -> None:
    views.sql("update whole set v = whole.v + 1 where id = 1")
    assert rows(views) == [(1, 11), (2, 20), (3, 30)]
    views.sql("update some s set v = -1 where s.id = 2 or s.id = 0")
    assert rows(views) == [(1, 11), (2, -1), (3, 30)]
    views.sql(
        "merge into whole using (select 1 id, 7 v union all select 9, 9) s on whole.id = s.id "
        "when matched then update set v = s.v when not matched then insert *"
    )
    assert rows(views) == [(1, 7), (2, -1), (3, 30), (9, 9)]
    views.sql("delete from some")
    assert rows(views) == [(1, 7), (9, 9)]


def test_a_view_that_is_more_than_rows_of_one_table_is_refused(views: Lake) -> None:
    for query in ("select id, v + 1 as v from db.t", "select id from db.t", "select distinct * from db.t",
                  "select a.* from db.t a join db.t b on a.id = b.id", "select * from db.t limit 1"):  # fmt: skip
        views.run(f"create or replace temporary view other as {query}")
        with pytest.raises(InvalidRequest, match="'other' is a view"):
            views.sql("delete from other")
    with pytest.raises(InvalidRequest, match="'some' is a view"):  # its other rows would be inserted again
        views.sql("merge into some using (select 1 id) s on some.id = s.id when matched then delete")
    views.spark.table("some").createOrReplaceTempView("whole")
    with pytest.raises(InvalidRequest, match="'whole' is a view"):
        views.sql("delete from whole")
    assert rows(views) == [(1, 10), (2, 20), (3, 30)]
