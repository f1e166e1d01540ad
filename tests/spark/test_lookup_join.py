"""Lookup joins on Spark: rows of a frame or a stream find what the table has when they are read."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from lakelog.errors import InvalidRequest, InvalidSchema
from plans import optimized_plan
from seen_batches import SeenBatches

CREATE = """create table db.dim (id int, lang string, name string, n bigint, primary key (id, lang)) using lakelog
tblproperties ('bucket' = '3', 'bucket-key' = 'id', {more})"""
LOG = "'log-store.enabled' = 'true'"
FILES = "'log-store.enabled' = 'false'"


def put(lake, rows: list[tuple], kinds: list[str] | None = None, table: str = "db.dim") -> None:
    found = pa.Table.from_pylist(
        [{"id": i, "lang": lang, "name": name, "n": n} for i, lang, name, n in rows],
        pa.schema([("id", pa.int32()), ("lang", pa.string()), ("name", pa.string()), ("n", pa.int64())]),
    )
    if kinds is not None:
        found = found.append_column("_row_kind", pa.array(kinds))
    lake.table(table).write(found)


def made(lake, more: str = LOG) -> None:
    lake.sql(CREATE.format(more=more))
    put(lake, [(i, lang, f"{lang}{i}", i) for i in range(20) for lang in ("de", "en")])


def rows(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("more", [LOG, FILES])
@pytest.mark.parametrize("shuffle", ["auto", "none"])
def test_a_frame_finds_the_newest_rows(lake, spark, more, shuffle) -> None:
    made(lake, more)
    put(lake, [(1, "de", "new", 7), (2, "de", "gone", 0)], ["+U", "-D"])
    probes = spark.createDataFrame(
        [(1, "de"), (1, "de"), (2, "de"), (3, "xx"), (None, "de"), (4, None)], "k int, l string"
    )
    options = {"lookup.shuffle": shuffle}
    inner = lake.lookup_join(probes, "db.dim", {"k": "id", "l": "lang"}, options=options)
    assert inner.columns == ["k", "l", "name", "n"]
    assert rows(inner) == [(1, "de", "new", 7), (1, "de", "new", 7)]
    left = lake.lookup_join(probes, "db.dim", {"k": "id", "l": "lang"}, "left", ["name"], "d_", options)
    assert left.columns == ["k", "l", "d_name"]
    want = [(1, "de", "new"), (1, "de", "new"), (2, "de", None), (3, "xx", None), (None, "de", None), (4, None, None)]
    assert rows(left) == sorted(want, key=repr)


@pytest.mark.parametrize("on", ["id", "lang"])
def test_part_of_the_key_finds_all_its_rows(lake, spark, on) -> None:
    made(lake)
    probes = spark.createDataFrame([(3, "de", "a"), (99, "xx", "b")], "id int, lang string, tag string").select(
        on, "tag"
    )
    found = lake.lookup_join(probes, "db.dim", on, "left", ["name"])
    if on == "id":
        assert rows(found) == [(3, "a", "de3"), (3, "a", "en3"), (99, "b", None)]
    else:
        assert rows(found) == sorted([*(("de", "a", f"de{i}") for i in range(20)), ("xx", "b", None)], key=repr)


def test_a_whole_number_of_another_size_finds_its_equal_only(lake, spark) -> None:
    made(lake)
    probes = spark.createDataFrame([(3, "de"), (3 + (1 << 32), "de")], "id bigint, lang string")
    for shuffle in ("auto", "none"):
        found = lake.lookup_join(probes, "db.dim", ["id", "lang"], columns=["n"], options={"lookup.shuffle": shuffle})
        assert rows(found) == [(3, "de", 3)]


@pytest.mark.parametrize("buckets", [1, 4])
def test_a_key_of_a_fixed_length_is_found_by_its_text(lake, spark, buckets) -> None:
    lake.sql(
        "create database db; create table db.dim (c char(5), n int, primary key (c)) using lakelog "
        f"tblproperties ('bucket' = '{buckets}'); insert into db.dim values ('ab', 1), ('cde', 2), ('x', 3)"
    )
    frame = spark.createDataFrame([("ab",), ("cde  ",), ("y",), (None,)], "c string")
    found = lake.lookup_join(frame, "db.dim", on="c", how="left")
    assert rows(found.selectExpr("trim(c)", "n").na.fill("none")) == [
        ("ab", 1),
        ("cde", 2),
        ("none", None),
        ("y", None),
    ]


def test_rows_of_every_type_come_through(lake, spark) -> None:
    lake.sql(
        "create table db.dim (k timestamp(3), d date, m decimal(10,2), b binary, t timestamp_ntz, a array<int>, "
        "s struct<x:int,y:string>, mp map<string,int>, primary key (k, d, m, b)) using lakelog tblproperties "
        "('bucket' = '2')"
    )
    lake.sql(
        "insert into db.dim values (timestamp'2024-01-31 12:00:00.125', date'2024-01-31', 1.50, x'00ff', "
        "timestamp_ntz'2024-01-31 12:00:00', array(1, 2), named_struct('x', 1, 'y', 'z'), map('p', 1))"
    )
    probes = lake.sql("select k, d, m, b from db.dim")
    want = lake.sql("select t, a, s, mp from db.dim").collect()
    found = lake.lookup_join(probes, "db.dim", ["k", "d", "m", "b"])
    assert found.select("t", "a", "s", "mp").collect() == want
    later = probes.withColumn("k", sf.expr("k + interval 1 microsecond"))
    assert lake.lookup_join(later, "db.dim", ["k", "d", "m", "b"]).count() == 0, "not the millisecond before"


class Probes:
    """A stream of rows (k, l) that come when they are told to."""

    def __init__(self, lake, tmp_path) -> None:
        lake.sql("create table db.probes (k int, l string) using lakelog tblproperties ('log-store.enabled' = 'true')")
        self.lake = lake

    def read(self):
        return self.lake.read_stream("db.probes", {"read.mode": "log", "scan.startup.mode": "earliest"})

    def send(self, *keys: tuple[int, str]) -> None:
        k, lang = zip(*keys, strict=True)
        self.lake.table("db.probes").write(pa.table({"k": pa.array(k, pa.int32()), "l": list(lang)}))


@pytest.mark.parametrize("more", [LOG, FILES])
@pytest.mark.parametrize("is_async", ["false", "true"])
def test_a_stream_finds_the_current_rows_of_the_table(lake, tmp_path, more, is_async) -> None:
    made(lake, more)
    probes = Probes(lake, tmp_path)
    options = {"lookup.async": is_async, "lookup.name": "mine", "lookup.refresh-interval": "100 ms"}
    joined = lake.lookup_join(probes.read(), "db.dim", {"k": "id", "l": "lang"}, "left", ["name"], options=options)
    seen = SeenBatches(tmp_path / "seen")
    query = joined.select("k", "name").writeStream.foreachBatch(seen.take)
    query = query.option("checkpointLocation", str(tmp_path / "cp")).start()
    probes.send((1, "de"), (50, "de"))
    query.processAllAvailable()
    assert sorted(seen.tuples()) == [(1, "de1"), (50, None)]
    put(lake, [(1, "de", "new", 1), (50, "de", "late", 1), (2, "de", "", 0)], ["+U", "+I", "-D"])
    time.sleep(1.0 if is_async == "true" else 0)
    probes.send((1, "de"), (2, "de"), (50, "de"))
    query.processAllAvailable()
    assert sorted(seen.tuples()[2:], key=repr) == [(1, "new"), (2, None), (50, "late")]
    end = time.monotonic() + 120
    while sum(lake.lookup_stats("db.dim", "mine")["probes"].to_pylist()) < 5 and time.monotonic() < end:
        time.sleep(0.1)
    query.stop()
    stats = lake.lookup_stats("db.dim", "mine").to_pylist()[0]
    # a task that Spark runs twice counts twice
    assert stats["probes"] >= 5
    assert 3 <= stats["found"] < stats["probes"]
    assert stats["index_rows"] >= 1
    assert 0 < stats["age_max_ms"] < 20_000
    assert lake.lookup_stats("db.dim", "other").num_rows == 0


def test_rows_that_come_late_are_looked_up_again(lake, spark) -> None:
    made(lake)
    probes = spark.createDataFrame([(1, "de"), (70, "de"), (71, "de"), (None, "de")], "k int, l string")
    options = {"lookup.retry.attempts": "30", "lookup.retry.delay": "300 ms", "lookup.name": "again"}
    joined = lake.lookup_join(probes.coalesce(1), "db.dim", {"k": "id", "l": "lang"}, "left", ["name"], options=options)
    late = threading.Timer(4.0, put, [lake, [(70, "de", "late", 1)]])
    late.start()
    assert sorted(rows(joined), key=repr) == sorted(
        [(1, "de", "de1"), (70, "de", "late"), (71, "de", None), (None, "de", None)], key=repr
    )
    late.join()


def test_names_that_clash_and_what_cannot_be_looked_up_are_refused(lake, spark) -> None:
    made(lake)
    probes = spark.createDataFrame([(1, "de", "x")], "id int, lang string, name string")
    with pytest.raises(InvalidRequest, match=r"two columns 'name': choose .*\(prefix='dim_'\)"):
        lake.lookup_join(probes, "db.dim", ["id", "lang"])
    assert rows(lake.lookup_join(probes, "db.dim", ["id", "lang"], prefix="dim_")) == [(1, "de", "x", "de1", 1)]
    with pytest.raises(InvalidSchema, match=r"'name' \(string\) is compared with 'id' \(int\) of table db.dim: cast"):
        lake.lookup_join(probes, "db.dim", {"name": "id"}, prefix="d_")
    with pytest.raises(InvalidSchema, match="the frame has no column 'k'; it has: id, lang, name"):
        lake.lookup_join(probes, "db.dim", {"k": "id"}, prefix="d_")
    with pytest.raises(InvalidRequest, match="how='full' is not supported"):
        lake.lookup_join(probes, "db.dim", "id", "full")
    with pytest.raises(InvalidRequest, match="column 'id' of table db.dim is joined on twice"):
        lake.lookup_join(probes, "db.dim", ["id", "id"])
    with pytest.raises(InvalidRequest, match="'scan.tag-name' .* lookup join"):
        lake.lookup_join(probes, "db.dim", "id", options={"scan.tag-name": "t"})
    with pytest.raises(InvalidRequest, match=r"'lookup\.name' = '\.\./x'"):
        lake.lookup_join(probes, "db.dim", "id", prefix="d_", options={"lookup.name": "../x"})


SQL = [
    (
        "select o.k, d.name, n + 1 from probes as o join db.dim for system_time as of o.proc_time as d "
        "on o.k = d.id and d.lang = 'de'",
        [(1, "de1", 2), (3, "de3", 4)],
    ),
    (
        "select o.*, d.n from probes o join db.dim for system_time as of proctime() d on k = d.id and l = d.lang",
        "stars",
    ),
    (
        "select k, d.name from probes o left join db.dim for system_time as of now() as d "
        "on o.k = d.id and o.l = d.lang and d.n > 1",
        [(1, None), (3, "en3"), (50, None)],
    ),
    (
        "select k, d.name from probes o left join db.dim for system_time as of now() as d "
        "on o.k = d.id and d.n > o.k - 1",
        [(1, "de1"), (1, "en1"), (3, "de3"), (3, "en3"), (50, None)],
    ),
    (
        "select k, d.name from probes o join db.dim for system_time as of now() as d on o.k = d.id and name > 'e' "
        "where n = 3 order by k",
        [(3, "en3")],
    ),
    (
        "with o as (select *, proctime() as at from probes), p as (select o.k + 1 as k2, d.lang, d.id from o "
        "join db.dim for system_time as of o.at as d on o.k = d.id and o.l = d.lang) select p.id, e.name from p "
        "join db.dim for system_time as of proctime() e on p.k2 = e.id and p.lang = e.lang",
        [(1, "de2"), (3, "en4")],
    ),
    (
        "select o.k, a.name, b.name, x.v from probes o join db.dim for system_time as of proctime() a on o.k = a.id "
        "and o.l = a.lang join db.dim for system_time as of proctime() b on b.id = a.n + 1 and b.lang = a.lang join "
        "values (1, 'one'), (3, 'three') as x(k, v) on x.k = o.k",
        [(1, "de1", "de2", "one"), (3, "en3", "en4", "three")],
    ),
    (
        "select lang, count(*) from probes o join db.dim for system_time as of now() d on o.k = d.id group by lang",
        [("de", 2), ("en", 2)],
    ),
]


@pytest.mark.parametrize(("text", "want"), SQL)
def test_sql_of_a_batch(lake, spark, text, want) -> None:
    made(lake)
    frame = spark.createDataFrame([(1, "de"), (3, "en"), (50, "de")], "k int, l string")
    frame.withColumn("proc_time", sf.current_timestamp()).createOrReplaceTempView("probes")
    found = lake.sql(text)
    if want == "stars":
        assert found.columns == ["k", "l", "proc_time", "n"]
        assert rows(found.drop("proc_time")) == [(1, "de", 1), (3, "en", 3)]
    else:
        assert rows(found) == sorted(want, key=repr)
        assert "Join" not in optimized_plan(found) or "values" in text, "the rows come out of arrays, without a join"
    spark.catalog.dropTempView("probes")


def test_sql_of_a_stream(lake, tmp_path) -> None:
    made(lake)
    probes = Probes(lake, tmp_path)
    lake.sql("create table db.out (k int, l string, name string, primary key (k, l)) using lakelog")
    query = lake.sql(
        "insert into db.out select o.k, o.l, d.name from (select *, proctime() as proc_time from db.probes "
        "/*+ OPTIONS('read.mode'='log', 'scan.startup.mode'='earliest') */) as o left join db.dim for system_time "
        "as of o.proc_time as d on o.k = d.id and o.l = d.lang"
    )
    probes.send((1, "de"), (50, "de"))
    query.processAllAvailable()
    put(lake, [(2, "de", "two", 1)], ["+U"])
    probes.send((2, "de"))
    query.processAllAvailable()
    query.stop()
    assert rows(lake.sql("select * from db.out")) == [(1, "de", "de1"), (2, "de", "two"), (50, "de", None)]
