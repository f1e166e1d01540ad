"""CACHE TABLE: rows come from Spark's memory as long as the table is as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from lakelog import Lake
from lakelog.errors import InvalidRequest, UnsupportedFeature
from plans import plans_of

FROM_MEMORY = "InMemoryRelation"
MANY = 40_000
"""More rows than the driver reads by itself."""


def ids(lake: Lake, text: str) -> list[int]:
    return sorted(row[0] for row in lake.sql(text).collect())


@pytest.fixture(params=["merged by workers", "read by Spark", "read by the driver"])
def filled(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    """``db.t`` in the three ways in which a table is read; ids from 0, ``name`` = ``n<id>``."""
    merged = request.param == "merged by workers"
    engine = ", 'merge-engine' = 'partial-update', 'partial-update.remove-record-on-delete' = 'true'" if merged else ""
    lake.sql(
        "create table db.t (id bigint, `a name` string, primary key (id)) "
        f"tblproperties ('bucket' = '1', 'write-only' = 'true'{engine})"
    )
    count = 20 if request.param == "read by the driver" else MANY
    new = pa.table({"id": pa.array(range(count), pa.int64()), "a name": [f"n{i}" for i in range(count)]})
    for _ in range(1 + merged):
        lake.write(new, "db.t")
    return lake


def test_queries_answer_from_memory_until_the_table_changes(filled: Lake) -> None:
    text = "select id, `a name` from db.t where id < 3"
    assert FROM_MEMORY not in plans_of(filled.sql(text))
    filled.sql("cache table db.t")
    frame = filled.sql(text)
    assert FROM_MEMORY in plans_of(frame)
    assert sorted(map(tuple, frame.collect())) == [(0, "n0"), (1, "n1"), (2, "n2")]
    filled.sql("insert into db.t values (1, 'new'), (-1, 'more')")
    frame = filled.sql(text)
    assert FROM_MEMORY in plans_of(frame)
    assert sorted(map(tuple, frame.collect())) == [(-1, "more"), (0, "n0"), (1, "new"), (2, "n2")]
    filled.sql("uncache table db.t")
    assert FROM_MEMORY not in plans_of(filled.sql(text))
    assert ids(filled, text) == [-1, 0, 1, 2]


def test_a_cached_table_has_the_columns_that_it_has_now(filled: Lake) -> None:
    filled.sql("cache lazy table db.t options ('storageLevel' = 'disk_only')")
    assert FROM_MEMORY in plans_of(filled.sql("select * from db.t"))
    filled.sql("alter table db.t add column more int")
    assert filled.sql("select * from db.t").columns == ["id", "a name", "more"]
    assert ids(filled, "select id from db.t where more is null and id < 2") == [0, 1]


def test_a_cached_table_is_joined_with_itself_and_its_past_is_read_from_files(filled: Lake) -> None:
    filled.sql("cache table db.t")
    left, right = filled.sql("select * from db.t where id < 5"), filled.sql("select * from db.t where id > 2")
    assert sorted(row[0] for row in left.join(right, left["id"] == right["id"]).select(left["id"]).collect()) == [3, 4]
    assert FROM_MEMORY not in plans_of(filled.sql("select id from db.t version as of 1"))


def test_dml_and_drop_release_the_cached_rows(filled: Lake) -> None:
    filled.sql("cache table db.t")
    filled.sql("delete from db.t where id >= 2")
    assert ids(filled, "select id from db.t") == [0, 1]
    filled.sql("drop table db.t; create table db.t (id bigint, primary key (id)); insert into db.t values (7)")
    assert FROM_MEMORY not in plans_of(filled.sql("select id from db.t"))
    assert ids(filled, "select id from db.t") == [7]


def test_clear_cache_lets_go_of_all(filled: Lake) -> None:
    filled.sql("cache table db.t; clear cache")
    assert FROM_MEMORY not in plans_of(filled.sql("select id from db.t"))


def test_what_cannot_be_kept_is_refused(lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, primary key (id))")
    with pytest.raises(InvalidRequest, match="unknown storageLevel 'somewhere'; Spark has: DISK_ONLY, "):
        lake.sql("cache table db.t options ('storageLevel' = 'somewhere')")
    with pytest.raises(UnsupportedFeature, match=r"CACHE TABLE … AS SELECT"):
        lake.sql("cache table db.t$snapshots")
    assert FROM_MEMORY not in plans_of(lake.sql("select * from db.t"))


def test_a_change_of_columns_or_options_alone_is_seen(lake: Lake) -> None:
    """ALTER TABLE makes no snapshot."""
    lake.sql("create table db.al (id int, b int); insert into db.al values (1, 5); cache table db.al")
    lake.sql("alter table db.al drop column b; alter table db.al add column b int")
    assert lake.sql("select * from db.al").collect() == [(1, None)]
    lake.sql(
        "create table db.sum (id bigint, a bigint, primary key (id)) tblproperties ('bucket' = '1', 'write-only' = "
        "'true', 'merge-engine' = 'aggregation', 'fields.a.aggregate-function' = 'sum')"
    )
    lake.sql("insert into db.sum values (1, 1); insert into db.sum values (1, 5); cache table db.sum")
    assert lake.sql("select * from db.sum").collect() == [(1, 6)]
    lake.sql("alter table db.sum set tblproperties ('fields.a.aggregate-function' = 'max')")
    assert lake.sql("select * from db.sum").collect() == [(1, 5)]


def test_memory_is_given_back_whatever_ends_the_table(lake: Lake, tmp_path, spark) -> None:
    def kept() -> int:
        return len(lake._engine.started._planned.cached._cached)

    lake.sql("create table db.t (id bigint, primary key (id)); insert into db.t values (1); cache table db.t")
    lake.sql("call sys.create_branch('db.t', 'b', snapshot => 1); cache table db.t$branch_b")
    lake.sql("create table db.u (id bigint, primary key (id)); insert into db.u values (1); cache table db.u")
    assert kept() == 3
    lake.sql("uncache table db.u")
    assert FROM_MEMORY in plans_of(lake.sql("select * from db.t")), "equal rows, but a table of its own"
    lake.sql("drop table db.t")
    assert kept() == 0
    lake.sql("cache table db.u; drop database db cascade")
    lake.sql("create table db.u (id bigint, primary key (id))")
    assert FROM_MEMORY not in plans_of(lake.sql("select * from db.u")) and kept() == 0
    lake.add_catalog("more", str(tmp_path / "more"))
    lake.sql("create table more.db.t (id bigint); insert into more.db.t values (1); cache table more.db.t")
    lake.drop_catalog("more")
    assert kept() == 0


def test_a_view_shows_the_rows_of_now(lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, primary key (id)); insert into db.t values (1)")
    lake.sql("create or replace temporary view now_v as select id from db.t")
    lake.sql("create or replace temporary view over_v as select id + 1 as id from now_v where id > 0")
    assert ids(lake, "select id from over_v") == [2]
    lake.sql("insert into db.t values (2)")
    assert ids(lake, "select * from over_v") == [2, 3] and ids(lake, "table now_v") == [1, 2]
    lake.sql("create or replace temporary view now_v as select id * 10 as id from db.t")
    assert ids(lake, "select * from over_v") == [11, 21]
    lake.sql("delete from db.t where id = 1")
    assert ids(lake, "select o.id from over_v o join now_v n on o.id = n.id + 1") == [21]
    lake.sql("drop table db.t")
    assert [row[0] for row in lake.sql("select 'now_v'").collect()] == ["now_v"]
    with pytest.raises(AnalysisException, match="cannot be found"):
        lake.sql("select * from over_v").collect()
    lake.sql("create table db.t (id bigint, primary key (id)); insert into db.t values (5)")
    assert ids(lake, "select * from over_v") == [51]
    lake.sql("drop view over_v; drop view now_v")
