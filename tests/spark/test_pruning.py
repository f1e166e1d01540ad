"""What queries need not read: rows that are only counted, rows beyond a limit, partitions that a join leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from limits import limit
from plans import plans_of

PARTS = 20


@pytest.fixture(autouse=True)
def _as_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver reads no rows of a hundred by itself, but in joins."""
    limit(monkeypatch, native_rows=50)


def rows(lake: Lake, text: str) -> list[tuple]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=str)


def told(lake: Lake, text: str) -> str:
    """What EXPLAIN says of the tables, without Spark's plan."""
    return lake.sql(f"explain {text}").collect()[0][0].partition("== Physical Plan")[0]


@pytest.fixture
def parts(lake: Lake) -> Lake:
    """``db.facts`` with 20 partitions of 10 keys each, ids from 0; ``db.days`` names some of the partitions."""
    lake.sql(
        "create table db.facts (id bigint, day int, v string, primary key (id, day)) partitioned by (day) "
        "tblproperties ('bucket' = '1', 'write-only' = 'true')"
    )
    lake.sql("create table db.days (day int, name string, primary key (day)) tblproperties ('bucket' = '1')")
    ids = range(10 * PARTS)
    lake.write(
        pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "day": pa.array([i % PARTS for i in ids], pa.int32()),
                "v": [f"v{i}" for i in ids],
            }
        ),
        "db.facts",
    )
    names = {"day": pa.array([3, 7, 8, 99], pa.int32()), "name": ["three", "seven", "eight", "none"]}
    lake.write(pa.table(names), "db.days")
    return lake


def test_counts_come_from_metadata(parts: Lake) -> None:
    frame = parts.sql("select count(*) from db.facts")
    assert frame.columns == ["count(1)"] and frame.collect()[0][0] == 200
    assert "LocalTableScan" in plans_of(frame) and "Scan parquet" not in plans_of(frame)
    by_day = "select day, count(*) as n from db.facts where day between 3 and 5 group by day"
    assert rows(parts, by_day) == [(3, 10), (4, 10), (5, 10)]
    assert "counted by metadata" in told(parts, by_day)
    assert "reads 3 splits, 3 files" in told(parts, by_day)
    assert rows(parts, "select count(*) from db.facts where day = 77") == [(0,)]
    assert rows(parts, "select day, count(*) from db.facts where day = 77 group by day") == []
    assert rows(parts, "select count(*) + sum(id) from db.facts") == [(200 + 19900,)]
    assert rows(parts, "select max(n) from (select day, count(*) n from db.facts group by day) where n > 3") == [(10,)]


def test_what_metadata_does_not_know_is_read_to_be_counted(parts: Lake) -> None:
    parts.sql("insert into db.facts values (3, 3, 'again'), (1000, 3, 'new')")
    parts.sql("delete from db.facts where id = 4")
    counts = "select day, count(*) from db.facts where day in (3, 4, 5) group by day"
    assert rows(parts, counts) == [(3, 11), (4, 9), (5, 10)]
    assert rows(parts, "select count(*) from db.facts") == [(200,)]
    assert told(parts, counts).count("counted by metadata") == 1
    parts.table("db.facts").compact()
    assert rows(parts, counts) == [(3, 11), (4, 9), (5, 10)]
    assert told(parts, counts).count("counted by metadata") == 3
    assert rows(parts, "select count(*) from db.facts version as of 1") == [(200,)]


@pytest.mark.parametrize("bits", ["false", "true"])
def test_deletion_vectors_report_their_number_of_rows(lake: Lake, bits: str) -> None:
    lake.sql(
        "create table db.t (id bigint, v int, primary key (id)) tblproperties "
        f"('bucket' = '2', 'deletion-vectors.enabled' = 'true', 'deletion-vectors.bitmap64' = '{bits}')"
    )
    lake.write(pa.table({"id": pa.array(range(300), pa.int64()), "v": pa.array([0] * 300, pa.int32())}), "db.t")
    lake.sql("update db.t set v = 1 where id < 20")
    lake.sql("delete from db.t where id >= 290")
    assert rows(lake, "select count(*) from db.t") == [(290,)]
    assert "counted by metadata" in told(lake, "select count(*) from db.t")
    assert rows(lake, "select count(*) from db.t where v = 1") == [(20,)]


def test_epochs_and_streams_are_counted(lake: Lake) -> None:
    lake.sql(
        "create table db.t (id bigint, primary key (id)) tblproperties ('bucket' = '1', 'log-store.enabled' = 'true')"
    )
    lake.sql("insert into db.t values (1), (2)")
    assert rows(lake, "select count(*) from db.t") == [(2,)]
    lake.sql("insert into db.t values (2), (3)")
    assert rows(lake, "select count(*) as n from db.t") == [(3,)]
    lake.sql("create or replace temporary view counted as select count(*) as n from db.t")
    lake.sql("insert into db.t values (4)")
    assert rows(lake, "select * from counted") == [(4,)]


def test_a_limit_reads_no_more_splits_than_it_needs(parts: Lake) -> None:
    parts.sql("insert into db.facts values (0, 0, 'again')")
    frame = parts.sql("select id, v from db.facts limit 15")
    assert plans_of(frame).count("FileScan parquet") <= 2 and len(frame.collect()) == 15
    found = rows(parts, "select * from db.facts limit 1000")
    assert len(found) == 200 and len(set(found)) == 200
    assert len(rows(parts, "select * from db.facts limit 3 offset 198")) == 2
    assert rows(parts, "select * from db.facts limit 0") == []
    assert len({row[0] for row in rows(parts, "select id from db.facts limit 195")}) == 195
    assert "until there are 15 rows" in told(parts, "select id from db.facts limit 15")


@pytest.mark.parametrize(
    "query",
    [
        "select f.id, d.name from db.facts f join db.days d on f.day = d.day where d.name <> 'seven'",
        "select f.id, d.name from db.facts f, db.days d where f.day = d.day and d.name <> 'seven'",
        "select f.id, 'x' from db.facts f left semi join db.days d on f.day = d.day",
        "select id, 'x' from db.facts where day in (select day from db.days where name like 's%')",
        "select f.id, d.name from db.days d left join db.facts f on f.day = d.day",
        "select count(*), 'x' from db.facts f join db.days d on f.day = d.day",
        "select f.id, d.name from db.facts f left join db.days d on f.day = d.day",
        "select f.id, d.name from db.facts f full join db.days d on f.day = d.day and d.name = 'three'",
        "select f.id, 'x' from db.facts f left anti join db.days d on f.day = d.day",
        "select f.id, d.name from db.facts f join db.days d on f.day = d.day where d.name = 'nobody'",
    ],
)
def test_partitions_are_chosen_by_a_join_and_the_answer_is_the_same(
    parts: Lake, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(parts, query)
    is_pruned = not any(word in query for word in ("facts f left join", "full join", "anti"))
    assert ("splits, 20 files" in told(parts, query).partition("db.days")[0].partition(" of ")[0]) == (not is_pruned)
    assert "read first by the driver" in told(parts, query) if is_pruned else True
    limit(monkeypatch, pruned_files=1000)
    assert rows(parts, query) == found
    assert "read first by the driver" not in told(parts, query)


def test_what_a_query_inside_takes_from_around_it_chooses_no_partitions(parts: Lake) -> None:
    parts.sql("delete from db.facts as t where t.day in (select t.day from db.days d where d.name = 'three')")
    assert rows(parts, "select count(*) from db.facts") == [(0,)]


def test_numbers_that_a_partition_cannot_have_choose_none(parts: Lake) -> None:
    parts.sql("create table db.big (n bigint); insert into db.big values (10000000000), (-5000000000), (4)")
    assert len(rows(parts, "select f.id from db.facts f join db.big b on f.day = b.n")) == 10
    assert rows(parts, "select id from db.facts where day in (select n from db.big where n > 5)") == []


def test_counts_of_nothing_make_no_groups(lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, primary key (id)) tblproperties ('bucket' = '1', 'write-only' = 'true')")
    lake.sql("insert into db.t values (1), (2); delete from db.t where id > 0")
    assert rows(lake, "select count(*) from db.t") == [(0,)]
    assert rows(lake, "select 'x' as y, count(*) from db.t group by 1") == []


def test_days_that_python_does_not_know_choose_no_partitions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("create table db.f (id int, day date) partitioned by (day)")
    lake.sql("insert into db.f select id, date_add(date '9999-12-20', cast(id as int)) from range(0, 11, 1, 1)")
    lake.sql("create table db.d (day date); insert into db.d values (date '9999-12-25'), (date '+10000-01-04')")
    limit(monkeypatch, pruned_files=2)
    assert rows(lake, "select f.id from db.f f join db.d d on f.day = d.day") == [(5,)]


def test_both_sides_of_a_pruning_join_are_of_one_moment(parts: Lake) -> None:
    frame = parts.sql("select f.id from db.facts f join db.days d on f.day = d.day")
    parts.sql("insert into db.days values (11, 'eleven')")
    assert len(frame.collect()) == 30
    assert len(rows(parts, "select f.id from db.facts f join db.days d on f.day = d.day")) == 40


@pytest.fixture(params=["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", str(before))


def test_times_skip_files_in_every_zone_of_the_session(lake: Lake, zone: str) -> None:
    lake.sql("create table db.t (id bigint, at timestamp, wall timestamp_ntz)")
    every_hour = "from range({0}, {1}, 1, 1)"
    for day in range(20):
        lake.sql(
            "insert into db.t select id, timestamp_seconds(1704067200 + id * 3600), "
            "timestamp_ntz '2024-01-01 00:00:00' + make_dt_interval(0, cast(id as int)) "
            + every_hour.format(24 * day, 24 * day + 24)
        )
    lake.sql("create or replace temporary view plain as select id, at, wall, uuid() as u from db.t")
    conditions = [
        f"{column} {rest}"
        for column in ("at", "wall")
        for rest in (
            ">= '2024-01-19 10:00:00'",
            "< timestamp '2024-01-02 10:00:00'",
            "= '2024-01-07 05:00:00'",
            "between '2024-01-05' and '2024-01-05 03:00:00'",
        )
    ]
    conditions += [
        "cast(at as date) = '2024-01-05'",
        "to_date(wall) = date '2024-01-05'",
        "date(at) in (date '2024-01-03', '2024-01-05')",
        "cast(at as date) <= '2024-01-01'",
        "cast(id as int) = 7",
        "id::double >= 477",
    ]
    for condition in conditions:
        want = rows(lake, f"select id from plain where {condition} and length(u) > 0")
        assert rows(lake, f"select id from db.t where {condition}") == want, condition
        assert ", 20 files, " not in _read(told(lake, f"select id from db.t where {condition}")), condition


def _read(text: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith("  reads "))
    return line.partition(" of ")[0] + ", "


def test_explain_shows_how_each_split_is_read(parts: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    parts.sql("insert into db.facts values (3, 3, 'again')")
    text = told(parts, "select v from db.facts where day in (3, 4) and id > 2")
    assert "Table db.facts, snapshot 2" in text
    assert "skips by: (day IN (3, 4)) AND (id > 2)" in text
    assert "reads 2 splits, 3 files" in text and "of 20 splits, 21 files" in text
    (three,), (four,) = ([line for line in text.splitlines() if f"day={d}/" in line] for d in (3, 4))
    assert "2 files, 11 rows" in three and "the driver reads them, because they are few, merged" in three
    assert "1 files, 10 rows" in four and "they are few" in four
    limit(monkeypatch, native_rows=1)
    text = told(parts, "select v from db.facts where day in (3, 4)")
    assert "Spark reads the files, except rows that others replace or delete" in text
    parts.sql("cache table db.facts")
    assert "from Spark's memory (CACHE TABLE)" in told(parts, "select v from db.facts")


def test_explain_of_workers(lake: Lake) -> None:
    lake.sql("create table db.t (id bigint, n int, primary key (id)) tblproperties ('merge-engine' = 'aggregation')")
    values: dict[str, Any] = {"id": pa.array(range(100), pa.int64()), "n": pa.array([1] * 100, pa.int32())}
    for _ in range(2):
        lake.write(pa.table(values), "db.t")
    assert "Python workers read them, merged" in told(lake, "select * from db.t")
