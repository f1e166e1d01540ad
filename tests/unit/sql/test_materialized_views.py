"""Materialized views: statements, the API, what is refused, and what happens when a source is not what it was."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, UnsupportedFeature
from lakelog.lake import Lake
from lakelog.table.views.definition import ROW_KEY


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lakelog.connect(str(tmp_path))
    lake.sql("create table db.orders (id int, state string, v int, primary key (id)) with ('log-store.enabled'='true')")
    lake.sql("create table db.events (k string, v int)")
    write(lake, [1, 2, 3], ["new", "paid", "new"], [10, 20, 30])
    return lake


def write(lake: Lake, ids: list[int], states: list[str | None], values: list[int], kind: str = "+I") -> None:
    rows = {"id": pa.array(ids, pa.int32()), "state": states, "v": pa.array(values, pa.int32())}
    lake.write(pa.table({**rows, "_row_kind": [kind] * len(ids)}), "db.orders")


def rows(lake: Lake, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = lake.table(name).scan(columns or None).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def changes(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for b in lake.table(name).tail("earliest", stop="latest") for row in b.to_pylist()]


def test_a_view_follows_updates_and_deletes(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    assert rows(lake, "db.big") == [(2, 20), (3, 30)]
    write(lake, [1, 2], ["new", "new"], [16, 1])
    write(lake, [3], ["new"], [30], "-D")
    done = lake.sql("refresh materialized view db.big")
    assert done.column("rows").to_pylist() == [3]
    assert rows(lake, "db.big") == [(1, 16)]
    assert changes(lake, "db.big")[2:] == [(2, 20, "-D"), (3, 30, "-D"), (1, 16, "+I")]


def test_groups_come_change_and_go(lake: Lake) -> None:
    lake.views.create("db.states", "select state, count(*) as n, max(v) as m from db.orders group by state")
    assert rows(lake, "db.states", "state", "n", "m") == [("new", 2, 30), ("paid", 1, 20)]
    write(lake, [2, 3], [None, "new"], [20, 5])
    lake.views.refresh("db.states")
    assert rows(lake, "db.states", "state", "n", "m") == [("new", 2, 10), (None, 1, 20)]
    assert sorted(rows(lake, "db.states", ROW_KEY)) == [('["new"]',), ("[null]",)]


def test_the_equal_rows_of_a_union_all_are_two(lake: Lake) -> None:
    lake.views.create("db.both", "select id, v from db.orders where v > 15 union all select id, v from db.orders")
    assert rows(lake, "db.both", "id", "v") == [(1, 10), (2, 20), (2, 20), (3, 30), (3, 30)]
    write(lake, [2], ["new"], [1])
    lake.views.refresh("db.both")
    assert rows(lake, "db.both", "id", "v") == [(1, 10), (2, 1), (3, 30), (3, 30)]


def test_a_refresh_writes_only_what_differs(lake: Lake) -> None:
    lake.sql("create materialized view db.states as select state, count(*) as n from db.orders group by state")
    write(lake, [1], ["new"], [11])  # changes no row of the view
    assert lake.views.refresh("db.states").rows == 0
    assert lake.views.refresh("db.states").is_current


def test_a_row_is_in_the_view_as_soon_as_it_is_decided(lake: Lake) -> None:
    """A streaming job has decided an epoch that has no snapshot yet."""
    lake.sql("create table db.s (id int, primary key (id)) with ('log-store.enabled'='true', 'commit.interval'='1 h')")
    lake.sql("create materialized view db.copy as select id from db.s")
    lake.table("db.s").write(pa.table({"id": pa.array([1], pa.int32())}))
    lake.views.refresh("db.copy")
    assert rows(lake, "db.copy") == [(1,)]


def test_a_view_and_its_sources_are_read_as_of_one_moment(lake: Lake) -> None:
    lake.views.create("db.total", "select sum(v) as s from db.orders")
    for value in range(3):
        write(lake, [1], ["new"], [value])
        if value < 2:
            lake.views.refresh("db.total")
    cut = lake.cut(["db.total", "db.orders"])
    (total,) = lake.table("db.total").scan(["s"], options=cut.options).to_arrow()["s"].to_pylist()
    assert total == sum(lake.table("db.orders").scan(["v"], options=cut.options).to_arrow()["v"].to_pylist()) == 51
    assert sum(lake.table("db.orders").scan(["v"]).to_arrow()["v"].to_pylist()) == 52
    lake.views.drop("db.total")
    assert not lake.table("db.orders").logical.store.consumers.list()


def test_views_of_views_are_refreshed_in_their_order(lake: Lake) -> None:
    lake.sql("create materialized view db.z as select id, state, v from db.orders where v > 5")
    lake.sql("create materialized view db.a as select state, sum(v) as s from db.z group by state")
    lake.sql("create materialized view db.b as select count(*) as n, sum(s) as s from db.a")
    assert lake.views.ordered() == ["db.z", "db.a", "db.b"]
    write(lake, [1], ["late"], [100])
    for name in lake.views.ordered():
        lake.views.refresh(name)
    assert rows(lake, "db.b", "n", "s") == [(3, 150)]
    with pytest.raises(InvalidRequest, match="db.a is a source of view db.b"):
        lake.sql("drop materialized view db.a")


def test_the_columns_have_the_types_of_spark_and_of_the_source(lake: Lake) -> None:
    lake.sql("create table db.t (id int, d decimal(9, 2), c varchar(5), f float, primary key (id))")
    lake.sql("create materialized view db.types as select c, sum(id) as i, sum(d) as d, sum(f) as f, avg(id) as a, "
             "count(*) as n, max(d) as m from db.t group by c")  # fmt: skip
    shown = {field.name: str(field.type) for field in lake.table("db.types").definition.fields}
    columns = {f.name: f.type for f in lake.table("db.types").schema}
    assert columns["i"] == pa.int64() and columns["n"] == pa.int64() and columns["a"] == pa.float64()
    assert columns["d"] == pa.decimal128(19, 2) and columns["m"] == pa.decimal128(9, 2) and columns["f"] == pa.float64()
    assert "5" in shown["c"]


REFUSED = (
    ("select v from db.orders", "add orders.id to SELECT"),
    ("select k, v from db.events", "has no primary key"),
    ("select state, count(*) as n from db.orders group by state, v", "add `orders`.v|add orders.v"),
    ("select count(*) from db.orders", "needs a name"),
    ("select id, v as id from db.orders", "are called 'id'"),
    ("select id, rand() as r from db.orders", "rand"),
    ("select id, current_timestamp() as t from db.orders", "current_timestamp"),
    ("select id, timestamp'now' as t from db.orders", "'now' as a time"),
    ("select id from db.orders where date'today' > date'2024-01-01'", "'today' as a time"),
    ("select id from db.orders limit 2", "LIMIT"),
    ("select id from (select id from db.orders union all select id from db.orders) x", "UNION ALL"),
    ("select k, v from db.events union all select state, v from db.orders", "has no primary key"),
    ("select id from db.orders version as of 1", "follows its sources"),
    ("select id from db.orders /*+ OPTIONS('read.mode'='log') */", "hints"),
    ("select snapshot_id from db.orders$snapshots", "no table of this lake"),
    ("select state, count(*) as n from db.orders group by rollup (state)", "ROLLUP"),
    ("select 1 as x", "needs a query that reads tables"),
)


@pytest.mark.parametrize(("query", "words"), REFUSED, ids=[words[:20] for _, words in REFUSED])
def test_a_query_that_no_refresh_can_follow_is_refused_with_the_reason(lake: Lake, query: str, words: str) -> None:
    with pytest.raises((UnsupportedFeature, InvalidRequest), match=words):
        lake.sql(f"create materialized view db.v as {query}")
    assert not lake.table_exists("db.v")


def test_unknown_names_are_found_before_anything_is_made(lake: Lake) -> None:
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        lake.sql("create materialized view db.v as select id from db.order")
    with pytest.raises(InvalidRequest, match="vv"):
        lake.sql("create materialized view db.v as select id, vv from db.orders")
    assert not lake.table_exists("db.v")


def test_a_failed_first_refresh_leaves_nothing(lake: Lake) -> None:
    lake.sql("create table db.t (id int, v int, primary key (id))")
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([2**31 - 1], pa.int32())})
    lake.write(rows, "db.t")
    with pytest.raises(InvalidRequest, match="cannot be computed"):
        lake.sql("create materialized view db.v as select id, v + 1 as w from db.t")
    assert not lake.table_exists("db.v") and not lake.table("db.t").logical.store.consumers.list()


def test_the_rows_of_a_view_are_not_written(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    one = pa.table({"id": pa.array([9], pa.int32()), "v": pa.array([9], pa.int32())})
    for attempt in (
        lambda: lake.write(one, "db.big"),
        lambda: lake.write(one, "db.big", overwrite=True),
        lambda: lake.table("db.big").writer(),
        lambda: lake.table("db.big").truncate(),
        lambda: lake.sql("delete from db.big where id = 2"),
        lambda: lake.sql("insert into db.big values (9, 9)"),
        lambda: lake.sql("truncate table db.big"),
    ):
        with pytest.raises(UnsupportedFeature, match="materialized view"):
            attempt()
    assert rows(lake, "db.big") == [(2, 20), (3, 30)]


def test_a_source_that_was_dropped_or_made_again_is_not_followed(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    lake.sql("drop table db.orders")
    with pytest.raises(NotFound, match="orders"):
        lake.views.refresh("db.big")
    lake.sql("create table db.orders (id int, state string, v int, primary key (id))")
    write(lake, [7], ["new"], [70])
    with pytest.raises(InvalidRequest, match="dropped and created again.*REBUILD"):
        lake.views.refresh("db.big")
    assert rows(lake, "db.big") == [(2, 20), (3, 30)]
    lake.sql("alter materialized view db.big rebuild")
    assert rows(lake, "db.big") == [(7, 70)]
    write(lake, [7], ["new"], [1])
    lake.views.refresh("db.big")
    assert rows(lake, "db.big") == []


def test_a_rollback_of_a_source_is_followed_and_that_of_a_view_refused(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    write(lake, [1, 2], ["new", "new"], [99, 0])
    lake.views.refresh("db.big")
    lake.table("db.orders").rollback_to(1)
    lake.views.refresh("db.big")
    assert rows(lake, "db.big") == [(2, 20), (3, 30)]
    with pytest.raises(UnsupportedFeature, match="materialized view"):
        lake.table("db.big").rollback_to(1)


def test_a_source_whose_snapshots_are_gone_is_compared_as_a_whole(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    consumers = lake.table("db.orders").logical.store.consumers
    for consumer in consumers.list():
        consumers.delete(consumer.name)
    for value in range(3):
        write(lake, [1], ["new"], [value + 16])
    lake.sql("call sys.expire_snapshots(table => 'db.orders', retain_max => 1)")
    done = lake.views.refresh("db.big")
    assert done.is_whole and done.rows == 1
    assert rows(lake, "db.big") == [(1, 18), (2, 20), (3, 30)]


def test_expiry_keeps_the_snapshot_of_the_position(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    for value in range(3):
        write(lake, [1], ["new"], [value + 16])
    lake.sql("call sys.expire_snapshots(table => 'db.orders', retain_max => 1)")
    assert not lake.views.refresh("db.big").is_whole
    lake.sql("drop materialized view db.big")
    assert not lake.table("db.orders").logical.store.consumers.list()


def test_dropping_the_database_of_a_view_frees_the_snapshots_of_its_sources(lake: Lake) -> None:
    lake.sql("create materialized view other.big as select id, v from db.orders where v > 15")
    assert lake.table("db.orders").logical.store.consumers.list()
    lake.sql("drop database other cascade")
    assert not lake.table("db.orders").logical.store.consumers.list()


def test_a_source_may_gain_columns_but_not_lose_or_change_those_of_the_query(lake: Lake) -> None:
    lake.sql("create materialized view db.big as select id, v from db.orders where v > 15")
    lake.sql("alter table db.orders add column extra string")
    write_extra = pa.table({"id": pa.array([1], pa.int32()), "state": ["x"], "v": pa.array([50], pa.int32()),
                            "extra": ["e"]})  # fmt: skip
    lake.write(write_extra, "db.orders")
    lake.views.refresh("db.big")
    assert rows(lake, "db.big") == [(1, 50), (2, 20), (3, 30)]
    lake.sql("alter table db.orders alter column v type bigint")
    with pytest.raises(InvalidRequest, match="column 'v' of type BIGINT"):
        lake.views.refresh("db.big")
    lake.sql("alter table db.orders rename column v to w")
    with pytest.raises(InvalidRequest, match="v"):
        lake.views.refresh("db.big")


def test_create_again_replace_and_drop(lake: Lake) -> None:
    lake.sql("create materialized view db.v as select id from db.orders")
    with pytest.raises(AlreadyExists):
        lake.sql("create materialized view db.v as select id, v from db.orders")
    lake.sql("create materialized view if not exists db.v as select id, v from db.orders")
    assert lake.table("db.v").schema.names == ["id"]
    lake.sql("create or replace materialized view db.v as select id, v from db.orders")
    assert lake.table("db.v").schema.names == ["id", "v"]
    with pytest.raises(InvalidRequest, match="is no materialized view"):
        lake.sql("drop materialized view db.orders")
    with pytest.raises(InvalidRequest, match="is no materialized view"):
        lake.sql("refresh materialized view db.orders")
    lake.sql("drop materialized view db.v")
    lake.sql("drop materialized view if exists db.v")
    with pytest.raises(NotFound):
        lake.sql("drop materialized view db.v")


def test_show_alter_and_explain(lake: Lake) -> None:
    query = "select state, sum(v) as s from db.orders group by 1"
    lake.sql(f"create materialized view db.v comment 'sums' refresh every 5 minutes as {query}")
    (shown,) = lake.sql("show materialized views in db").to_pylist()
    assert shown["viewName"] == "v" and shown["refresh"] == "every 300 seconds" and shown["sources"] == "db.orders"
    lake.sql("alter materialized view db.v refresh on commit")
    lake.sql("alter materialized view db.v suspend")
    (shown,) = lake.sql("show materialized views in db like 'v'").to_pylist()
    assert (shown["refresh"], shown["suspended"]) == ("on commit", "true")
    text = lake.views.explain("db.v")
    assert "the sums of its groups, from the changed rows alone" in text and "db.orders (removed)" in text
    with pytest.raises(InvalidRequest, match="every 0 seconds"):
        lake.sql("alter materialized view db.v refresh every 0 seconds")


def test_run_keeps_views_fresh_and_leaves_suspended_and_manual_ones(lake: Lake) -> None:
    lake.views.create("db.fresh", "select id, v from db.orders where v > 15")
    lake.views.create("db.top", "select count(*) as n from db.fresh")
    lake.views.create("db.manual", "select id from db.orders", refresh="manual")
    lake.sql("create materialized view db.off as select id from db.orders")
    lake.sql("alter materialized view db.off suspend")
    stop, seen = threading.Event(), list[str]()
    write(lake, [8], ["new"], [80])
    for done in lake.views.run(stop=stop):
        seen.append(done.view)
        if done.view == "db.top":
            stop.set()
    assert seen == ["db.fresh", "db.top"]
    assert rows(lake, "db.top", "n") == [(3,)]
    assert len(rows(lake, "db.manual")) == len(rows(lake, "db.off")) == 3


def test_run_goes_on_with_the_other_views_when_one_fails(lake: Lake) -> None:
    lake.views.create("db.a", "select id, v from db.orders")
    lake.views.create("db.b", "select k, sum(v) as s from db.events group by k")
    lake.sql("drop table db.orders")
    lake.write(pa.table({"k": ["x"], "v": pa.array([1], pa.int32())}), "db.events")
    stop, failures = threading.Event(), list[str]()
    for done in lake.views.run(stop=stop, failed=lambda name, why: failures.append(f"{name}: {why}")):
        assert done.view == "db.b"
        stop.set()
    assert failures and failures[0].startswith("db.a: ") and "orders" in failures[0]


def test_two_runners_of_one_view_do_not_count_a_change_twice(lake: Lake, tmp_path: Path) -> None:
    lake.views.create("db.n", "select count(*) as n, sum(v) as s from db.orders")
    other = lakelog.connect(str(tmp_path))
    write(lake, [4], ["new"], [40])
    lake.views.refresh("db.n")
    other.views.refresh("db.n")
    write(lake, [5], ["new"], [50])
    other.views.refresh("db.n")
    lake.views.refresh("db.n")
    assert rows(lake, "db.n", "n", "s") == [(5, 150)]


def test_names_of_the_query_mean_what_they_meant_when_the_view_was_created(lake: Lake) -> None:
    lake.sql("use db")
    lake.sql("create materialized view v as select id from orders")
    lake.sql("use default")
    write(lake, [4], ["new"], [40])
    lake.views.refresh("db.v")
    assert len(rows(lake, "db.v")) == 4


def test_a_query_reads_no_file_of_the_machine(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises((UnsupportedFeature, InvalidRequest, NotFound)):
        lake.sql(f"create materialized view db.v as select a from read_csv('{tmp_path}/secret.csv')")
    with pytest.raises((UnsupportedFeature, InvalidRequest, NotFound)):
        lake.sql(f"create materialized view db.v as select * from parquet.`{tmp_path}/secret.csv`")


def test_a_key_that_was_deleted_compacted_away_and_written_again_is_followed(lake: Lake) -> None:
    """The compaction drops the newest sequence numbers of the bucket, and the next writer uses them again."""
    lake.create_table("db.k", {"id": "int", "v": "int"}, primary_key="id", options={"bucket": "1"})
    lake.write(pa.table({"id": [0, 1], "v": [0, 0]}), "db.k")
    lake.sql("create materialized view db.copies as select id, v from db.k")
    lake.write(pa.table({"id": [2], "v": [2]}), "db.k")
    lake.sql("delete from db.k where id < 2")
    lake.table("db.k").compact()
    lake.write(pa.table({"id": [0], "v": [9]}), "db.k")
    lake.views.refresh("db.copies")
    assert rows(lake, "db.copies") == [(0, 9), (2, 2)]


@pytest.mark.parametrize("has_log", [False, True])
def test_rows_that_wait_for_a_compaction_are_followed_when_a_log_comes_or_ends(lake: Lake, has_log: bool) -> None:
    log = {"log-store.type": "embedded", "log.content": "changes"}
    options = "'bucket' = '1', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'"
    options += ", 'log-store.enabled' = 'true', 'log-store.type' = 'embedded', 'log.content' = 'changes'" * has_log
    lake.sql(f"create table db.s (id int, v int, primary key (id)) using lakelog tblproperties ({options})")
    table = lake.table("db.s")
    lake.sql("insert into db.s values (1, 1), (2, 2)")
    lake.sql("create materialized view db.of_s as select id, v from db.s")
    table.remove_log() if has_log else table.add_log(log)
    lake.table("db.s").compact()
    lake.sql("delete from db.s where id = 1")
    lake.table("db.s").compact()
    lake.sql("refresh materialized view db.of_s")
    assert rows(lake, "db.of_s", "id", "v") == [(2, 2)]
