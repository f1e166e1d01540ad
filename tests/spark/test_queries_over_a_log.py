"""A query over a range of the log as a batch: what Spark answers over the rows that the changes add up to."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, UnsupportedStatement

BATCH = "/*+ OPTIONS('read.mode'='log','streaming'='false','scan.startup.mode'='earliest') */"
KINDS = {
    "upsert": "primary key (id)|'bucket' = '2'",
    "all": "primary key (id)|'log.changelog-mode' = 'all'",
    "changes": "primary key (id)|'log.content' = 'changes'",
    "keyless": "|'bucket' = '2', 'bucket-key' = 'id'",
}
QUERIES = [
    "select count(*), sum(v), min(v), max(v), count(distinct k) from {t}",
    "select k, max(v), first(k), collect_set(v) from {t} group by k having count(*) > 1",
    "select distinct k from {t}",
    "select id, k, row_number() over (partition by k order by v desc, id) as n from {t}",
    "select k, count(*) filter (where v > 5), count_if(v > 5) from {t} group by rollup (k)",
    "select id, v from {t} where v = (select max(v) from {t})",
    "select n from (values (1), (3), (99)) as x(n) where n in (select id from {t})",
    "select n from (values (1), (3), (99)) as x(n) where not exists (select 1 from {t} as i where i.id = x.n)",
    "with x as (select * from {t}), y as (select k, sum(v) as s from x group by k) select y.k, s from y",
    "select a.id, b.k from {t} as a join {t} as b on a.k = b.k and a.id < b.id",
    "select a.id, d.name from {t} as a left join db.d as d on a.k = d.k",
    "select k from {t} intersect select k from db.d",
    "select v from {t} order by v desc, id limit 3",
    "select count(*) from (select * from {t})",
    "from {t} |> where v > 3 |> aggregate count(*) as n",
]


@pytest.fixture(scope="module", params=KINDS)
def changed(request, spark, tmp_path_factory):
    """A table after inserts, updates and deletes in several commits, and a dimension."""
    from lakelog import connect  # noqa: PLC0415 - one lake for the module

    key, options = KINDS[request.param].split("|")
    with connect(spark, warehouse=str(tmp_path_factory.mktemp("lake"))) as lake:
        lake.sql("create table db.d (k string, name string, primary key (k)) using lakelog")
        lake.sql("insert into db.d values ('a', 'A'), ('b', 'B')")
        lake.sql(
            f"create table db.t (id int, k string, v int{', ' if key else ''}{key}) using lakelog "
            f"tblproperties ('log-store.enabled' = 'true', {options})"
        )
        drawn = random.Random(request.param)
        for _ in range(4):
            numbers = [drawn.randrange(12) for _ in range(8)]
            columns = {
                "id": pa.array(numbers, pa.int32()),
                "k": [drawn.choice("abc") for _ in numbers],
                "v": pa.array([drawn.randrange(10) for _ in numbers], pa.int32()),
            }
            lake.write(pa.table(columns), "db.t")
            lake.sql(f"update db.t set v = v + 1 where id = {drawn.randrange(12)}")
            lake.sql(f"delete from db.t where id = {drawn.randrange(12)}")
        yield lake


def answer(frame) -> list[str]:
    assert not frame.isStreaming
    return sorted(str([sorted(v) if isinstance(v, list) else v for v in row]) for row in frame.collect())


@pytest.mark.parametrize("query", QUERIES)
def test_any_query_has_the_answer_of_the_current_rows(changed, query) -> None:
    assert answer(changed.sql(query.format(t=f"db.t {BATCH}"))) == answer(changed.sql(query.format(t="db.t")))


@pytest.mark.local_only("the client of Spark Connect has no plan")
@pytest.mark.parametrize("query", QUERIES)
def test_a_view_of_the_changes_is_netted_where_no_kind_is_used(changed, query) -> None:
    changed.sql(f"create or replace temporary view changes as select * from db.t {BATCH}")
    changed.sql("create or replace temporary view of_view as select * from changes")
    for view in ("changes", "of_view"):
        assert answer(changed.sql(query.format(t=view))) == answer(changed.sql(query.format(t="db.t")))
    kinds = changed.sql("select _row_kind, count(*) from changes group by _row_kind").collect()
    assert sum(n for _, n in kinds) == changed.sql("select * from changes").count()


def test_the_rows_of_a_frame_are_netted_unless_it_has_kinds(changed) -> None:
    now = sorted(map(tuple, changed.sql("select id, k, v from db.t").collect()), key=str)
    rows = changed.sql(f"select id, k, v from db.t {BATCH}")
    assert sorted(map(tuple, rows.collect()), key=str) == now
    assert answer(rows.groupBy("k").count()) == answer(changed.sql("select k, count(*) from db.t group by k"))
    options = {"read.mode": "log", "scan.startup.mode": "earliest"}
    changes = changed.spark.read.format("lakelog").options(**options).load("db.t")
    assert changes.columns == ["id", "k", "v", "_row_kind"]
    assert sorted(changes.collect()) == sorted(changed.sql(f"select * from db.t {BATCH}").collect())
    netted = changed.spark.read.format("lakelog").options(**options).schema("id int, k string, v int").load("db.t")
    assert sorted(map(tuple, netted.collect()), key=str) == now


def test_the_rows_of_an_insert_are_netted_and_changes_are_applied(changed) -> None:
    if not changed.table("db.t").definition.is_keyed:
        pytest.skip("changes without a key cannot be applied")
    for columns in ("id, k, v", "*"):
        changed.sql("create or replace table db.copy (id int, k string, v int, primary key (id)) using lakelog")
        changed.sql(f"insert into db.copy select {columns} from db.t {BATCH}")
        assert answer(changed.sql("select * from db.copy")) == answer(changed.sql("select * from db.t"))


def test_a_stream_is_the_default_and_the_other_kind_of_read_is_refused_by_name(changed) -> None:
    stream = BATCH.replace("'streaming'='false',", "")
    assert changed.sql(f"select * from db.t {stream}").isStreaming
    with pytest.raises(InvalidRequest, match="'streaming'='false'.* is a batch read"):
        changed.read_stream("db.t", {"read.mode": "log", "streaming": "false"})
    with pytest.raises(Exception, match="'streaming'='true'.* needs spark.readStream"):
        options = {"read.mode": "log", "streaming": "true"}
        changed.spark.read.format("lakelog").options(**options).load("db.t").collect()
    for query in ("select max(v) from {t}", "select 1 where 1 in (select id from {t})"):
        with pytest.raises(UnsupportedStatement, match="'streaming'='false'"):
            changed.sql(query.format(t=f"db.t {stream}"))
