"""A continuous query over the changes of a table keeps another table equal to the batch answer, or is refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from lakelog import Lake
from lakelog.errors import InvalidSchema, UnsupportedFeature, UnsupportedStatement

pytestmark = pytest.mark.local_only("the client of Spark Connect has no plan")

HINT = "/*+ OPTIONS('read.mode'='log','scan.startup.mode'='earliest') */"
LOG = f"db.t {HINT}"
OPTIONS = {"read.mode": "log", "scan.startup.mode": "earliest"}
ID = "id int, v int, primary key (id)"
NAMED = "id int, name string, v int, primary key (id)"
Write = str | Callable[[Lake], object]


def log(lake: Lake):
    return lake.read_stream("db.t", OPTIONS)


def write(frame) -> Callable[[Lake], object]:
    return lambda lake: lake.write_stream(frame(lake), "db.s")


ABOVE = "select id, v from {} where v > 5"
JOINED = "select t.id, d.name, t.v from db.t as t join db.d as d on t.k = d.k where t.v > 5"
SHAPES: dict[str, tuple[str, Write, str]] = {
    "a filter": (ID, ABOVE.format(LOG), ABOVE.format("db.t")),
    "a key that changes": (
        "k string, v int, primary key (k)",
        f"select k, v from {LOG} where id = 3",
        "select k, v from db.t where id = 3",
    ),
    "a key from another column": (
        "n int, id int, primary key (n)",
        f"select v * 100 + id, id from {LOG}",
        "select v * 100 + id, id from db.t",
    ),
    "a longer key": (
        "id int, k string, v int, primary key (id, k)",
        f"select id, k, v from {LOG}",
        "select id, k, v from db.t",
    ),
    "a lookup join": (
        NAMED,
        f"select t.id, d.name, t.v from {LOG} t join db.d for system_time as of proctime() d on t.k = d.k where v > 5",
        JOINED,
    ),
    "a join with a table": (
        NAMED,
        f"select t.id, d.name, t.v from {LOG} as t join db.d as d on t.k = d.k where t.v > 5",
        JOINED,
    ),
    "a semi join": (
        ID,
        f"select id, v from {LOG} as t left semi join db.d as d on t.k = d.k where v > 5",
        ABOVE.format("db.t"),
    ),
    "IN a table": (ID, f"select id, v from {LOG} where k in (select k from db.d) and v > 5", ABOVE.format("db.t")),
    "a union of two logs": (
        ID,
        f"{ABOVE.format(LOG)} union all {ABOVE.format(f'db.u {HINT}')}",
        f"{ABOVE.format('db.t')} union all {ABOVE.format('db.u')}",
    ),
    "a union with inserts": (
        "id int, v int, primary key (id)",
        f"select id, v from {LOG} union all select id, v from db.w {HINT}",
        "select id, v from db.t union all select id, v from db.w",
    ),
    "a common table expression": (ID, f"with x as (select id, v from {LOG}) {ABOVE.format('x')}", ABOVE.format("db.t")),
    "a subquery": (ID, f"select id, v from (select id, v from {LOG} where v > 5) as x", ABOVE.format("db.t")),
    "a view": (ID, ABOVE.format("changes"), ABOVE.format("db.t")),
    "a view without kinds": (ID, ABOVE.format("plain"), ABOVE.format("db.t")),
    "exploded rows": (
        "id int, e int, primary key (id, e)",
        f"select id, e from {LOG} lateral view explode(array(v, v + 1)) as e",
        "select id, e from db.t lateral view explode(array(v, v + 1)) as e",
    ),
    "a filtered query": (
        ID,
        write(lambda lake: lake.sql(f"select id, v from {LOG}").filter("v > 5")),
        ABOVE.format("db.t"),
    ),
    "a filtered stream": (ID, write(lambda lake: log(lake).filter("v > 5").select("id", "v")), ABOVE.format("db.t")),
    "a projected stream": (ID, write(lambda lake: log(lake).select("id", "v")), "select id, v from db.t"),
    "a frame that is looked up": (
        NAMED,
        write(lambda lake: lake.lookup_join(log(lake), "db.d", "k").filter("v > 5").select("id", "name", "v")),
        JOINED,
    ),
    "a sum of a frame": (
        "k string, n bigint, primary key (k)",
        write(lambda lake: summed(log(lake))),
        "select k, sum(v) from db.t group by k",
    ),
}


def summed(changes):
    sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    sums = changes.groupBy("k").agg(sf.sum(sf.col("v") * sign).alias("n"), sf.sum(sign).alias("rows"))
    return sums.withColumn("_row_kind", sf.when(sf.col("rows") > 0, "+I").otherwise("-D")).drop("rows")


@pytest.fixture
def made(lake: Lake) -> Lake:
    """Three sources with a log (the last without a key), a dimension, and views over the first log."""
    log_of = "using lakelog tblproperties ('log-store.enabled' = 'true', 'bucket' = '2'"
    lake.sql(f"create table db.t (id int, k string, v int, primary key (id)) {log_of})")
    lake.sql(f"create table db.u (id int, k string, v int, primary key (id)) {log_of})")
    lake.sql(f"create table db.w (id int, v int) {log_of}, 'bucket-key' = 'id')")
    lake.sql("create table db.d (k string, name string, primary key (k)) using lakelog tblproperties ('bucket' = '4')")
    lake.sql("insert into db.d values ('a', 'A'), ('b', 'B'), ('c', 'C')")
    lake.sql("insert into db.t values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
    lake.sql("insert into db.u values (11, 'a', 10)")
    lake.sql("insert into db.w values (21, 50)")
    lake.sql(f"create or replace temporary view changes as select * from {LOG}")
    lake.sql(f"create or replace temporary view plain as select id, v from {LOG}")
    return lake


def change(lake: Lake) -> None:
    """A row leaves each filter, one gets another key, and one is deleted."""
    lake.sql("update db.t set v = 1 where id = 1")
    lake.sql("update db.t set k = 'c', v = 31 where id = 3")
    lake.sql("update db.u set v = 1 where id = 11")
    lake.sql("delete from db.t where id = 2")


def rows_of(lake: Lake, query: str) -> list[tuple]:
    return sorted(map(tuple, lake.sql(query).collect()), key=str)


def start(lake: Lake, given: Write):
    return lake.sql(f"insert into db.s {given}") if isinstance(given, str) else given(lake)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_sink_is_the_batch_answer(made, shape) -> None:
    columns, given, want = SHAPES[shape]
    made.sql(f"create table db.s ({columns}) using lakelog")
    query = start(made, given)
    query.processAllAvailable()
    assert rows_of(made, "select * from db.s") == rows_of(made, want)
    change(made)
    query.processAllAvailable()
    query.stop()
    assert rows_of(made, "select * from db.s") == rows_of(made, want)


def test_a_projection_that_keeps_the_key_needs_no_state(made) -> None:
    made.sql("create table db.s (id bigint, v int, primary key (id)) using lakelog")
    query = start(made, f"select id, v from {LOG}")
    query.processAllAvailable()
    change(made)
    query.processAllAvailable()
    query.stop()
    table = made.table("db.t").logical
    assert rows_of(made, "select * from db.s") == rows_of(made, "select id, v from db.t")
    assert table.io.list(f"{table.path}/lakelog/normalize") == []


def changed_often(lake: Lake, seed: int) -> None:
    """Many changes of few keys, in several commits."""
    drawn = random.Random(seed)
    for _ in range(6):
        numbers = [drawn.randrange(8) for _ in range(12)]
        columns = {
            "id": pa.array(numbers, pa.int32()),
            "k": [drawn.choice("abc") for _ in numbers],
            "v": pa.array([drawn.randrange(12) for _ in numbers], pa.int32()),
            "_row_kind": [drawn.choice(["+I", "+I", "-D"]) for _ in numbers],
        }
        lake.write(pa.table(columns), "db.t")


@pytest.mark.parametrize("shape", ["a join with a table", "a lookup join"])
def test_many_changes_of_a_key_in_one_micro_batch_keep_their_order_in_a_join(made, spark, depth, shape) -> None:
    columns, given, want = SHAPES[shape]
    threshold = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for seed in depth.seeds(10):
            changed_often(made, seed)
            made.sql(f"create or replace table db.s ({columns}) using lakelog")
            query = start(made, given)
            query.processAllAvailable()
            query.stop()
            assert rows_of(made, "select * from db.s") == rows_of(made, want)
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)


def test_a_key_that_goes_from_one_row_to_another_stays(made) -> None:
    """Both rows change in one micro-batch, in tasks of their own: a delete, and an update that takes its key."""
    made.sql("create table db.s (k string, id int, primary key (k)) using lakelog tblproperties ('bucket' = '2')")
    text = f"insert into db.s select k, id from {LOG} where id >= 100"
    pairs = range(100, 140, 2)
    made.sql("insert into db.t values " + ", ".join(f"({n}, 'x{n}', 1), ({n + 1}, 'y{n}', 1)" for n in pairs))
    query = made.sql(text)
    query.processAllAvailable()
    query.stop()
    made.sql("delete from db.t where id >= 100 and id % 2 = 0")
    made.sql("update db.t set k = concat('x', id - 1) where id >= 100")
    query = made.sql(text)
    query.processAllAvailable()
    query.stop()
    assert rows_of(made, "select k, id from db.s") == sorted((f"x{n}", n + 1) for n in pairs)


REFUSED: dict[str, tuple[str, Write, str]] = {
    "a sink without a key": ("id int, v int", f"select id, v from {LOG}", "has no primary key.*append-only"),
    "a frame into a sink without a key": (
        "id int, v int",
        write(lambda lake: log(lake).select("id", "v")),
        "append-only",
    ),
    "a log with inserts": (
        ID,
        f"select t.id, w.v from {LOG} as t join db.w {HINT} as w on t.id = w.id",
        "a join of two streams",
    ),
    "a lookup from a view without kinds": (
        NAMED,
        "select id, name, v from plain as p join db.d for system_time as of proctime() d on d.k = cast(id as string)",
        "select _row_kind before it",
    ),
    "rows in another order": (
        ID,
        write(lambda lake: log(lake).select("id", "v").repartition(3)),
        "Repartition in a stream",
    ),
    "LIMIT": (ID, f"select id, v from {LOG} limit 5", "LIMIT in a stream .*'streaming'='false'"),
    "two logs": (
        ID,
        f"select a.id, b.v from {LOG} as a join db.u {HINT} as b on a.id = b.id",
        "a join of two streams",
    ),
    "an outer side": (
        "k string, id int, primary key (k)",
        f"select d.k, t.id from db.d as d left join {LOG} as t on d.k = t.k",
        "a LeftOuter join",
    ),
    "a lookup without kinds": (
        NAMED,
        write(lambda lake: lake.lookup_join(log(lake).drop("_row_kind"), "db.d", "k").select("id", "name", "v")),
        "select _row_kind before it",
    ),
    "files without old rows": (
        ID,
        write(lambda lake: lake.read_stream("db.t").filter("v > 5").select("id", "v")),
        "the files of table .* have no old rows",
    ),
    "a subquery": (ID, f"select id, v from db.u where id in (select id from {LOG})", "'streaming'='false'"),
}


@pytest.mark.parametrize("shape", REFUSED)
def test_what_cannot_be_right_is_refused_before_it_starts(made, shape) -> None:
    columns, given, said = REFUSED[shape]
    made.sql(f"create table db.s ({columns}) using lakelog")
    with pytest.raises((UnsupportedFeature, UnsupportedStatement, InvalidSchema), match=said):
        start(made, given)
    assert made.spark.streams.active == []


def test_a_sink_without_a_key_takes_inserts_only_or_the_kind_as_a_column(made) -> None:
    made.sql("create table db.s (id int, v int) using lakelog")
    only = HINT.replace("('read", "('log.consumer.changelog.modes'='append-only','read")
    query = start(made, f"select id, v from db.t {only}")
    query.processAllAvailable()
    query.stop()
    assert rows_of(made, "select * from db.s") == [(1, 10), (2, 20), (3, 30)]
    made.sql("create table db.audit (id int, kind string) using lakelog")
    query = made.sql(f"insert into db.audit select id, _row_kind as kind from {LOG}")
    change(made)
    query.processAllAvailable()
    query.stop()
    assert (2, "-D") in rows_of(made, "select * from db.audit")


def test_a_chain_of_three_tables_ends_with_the_batch_answer(lake, depth) -> None:
    """Filter → join with a dimension → aggregate, with restarts of each query at any time."""
    log_of = "using lakelog tblproperties ('log-store.enabled' = 'true', 'bucket' = '2', 'commit.interval' = '100 ms')"
    lake.sql("create table db.d (k string, name string, primary key (k)) using lakelog")
    lake.sql("insert into db.d values ('a', 'A'), ('b', 'B'), ('c', 'A')")
    for seed in depth.seeds(5):
        drawn = random.Random(seed)
        for name, columns in {
            "orders": "id int, k string, v int, primary key (id)",
            "large": "id int, k string, v int, primary key (id)",
            "named": "id int, name string, v int, primary key (id)",
            "sums": "name string, n bigint, total bigint, primary key (name)",
        }.items():
            lake.sql(f"create or replace table db.{name} ({columns}) {log_of}")
        chain = [
            f"insert into db.large select id, k, v from db.orders {HINT} where v > 4",
            f"insert into db.named select o.id, d.name, o.v from db.large {HINT} as o "
            "join db.d for system_time as of proctime() as d on o.k = d.k",
            f"insert into db.sums select name, count(*), sum(v) from db.named {HINT} group by name",
        ]
        queries = [lake.sql(text) for text in chain]
        for _ in range(4):
            numbers = [drawn.randrange(10) for _ in range(6)]
            columns = {
                "id": pa.array(numbers, pa.int32()),
                "k": [drawn.choice("abc") for _ in numbers],
                "v": pa.array([drawn.randrange(10) for _ in numbers], pa.int32()),
                "_row_kind": [drawn.choice(["+I", "+I", "+I", "-D"]) for _ in numbers],
            }
            lake.write(pa.table(columns), "db.orders")
            at = drawn.randrange(3)
            if drawn.random() < 0.5:
                queries[at].processAllAvailable()
            queries[at].stop()
            queries[at] = lake.sql(chain[at])
        for query in queries:
            query.processAllAvailable()
            query.stop()
        named = "select o.id, d.name, o.v from db.orders as o join db.d as d on o.k = d.k where o.v > 4"
        assert rows_of(lake, "select * from db.named") == rows_of(lake, named)
        want = f"select name, count(*), sum(v) from ({named}) group by name"
        assert rows_of(lake, "select * from db.sums") == rows_of(lake, want)
