"""Queries without Spark: what runs in this process, with Spark's types, and what is refused by name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog import Lake
from lakelog.errors import InvalidRequest, InvalidSchema, NotInstalled, UnsupportedFeature


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with lakelog.connect(tmp_path / "warehouse", settings={"spark.sql.session.timeZone": "UTC"}) as opened:
        yield opened
        assert not opened._engine.is_started


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.sql(
        "create table db.t (id bigint, name string, n int, price decimal(10, 2), day date, at timestamp, "
        "info struct<a: int, b: string>, primary key (id))"
    )
    lake.sql("create table db.u (id bigint, t_id bigint, part string) partitioned by (part)")
    rows = [
        {
            "id": 1,
            "name": "a",
            "n": 1,
            "price": Decimal("1.50"),
            "day": dt.date(2024, 1, 31),
            "info": {"a": 1, "b": "x"},
        },
        {"id": 2, "name": "b", "n": 2, "price": Decimal("2.25"), "day": dt.date(2024, 2, 1), "info": None},
        {"id": 3, "name": None, "n": None, "price": None, "day": None, "info": {"a": None, "b": "y"}},
    ]
    given = pa.Table.from_pylist(rows, lake.table("db.t").scan().schema)
    lake.write(given, "db.t")
    lake.sql("insert into db.u values (10, 1, 'p'), (11, 1, 'q'), (12, 2, 'p'), (13, 9, 'p')")
    return lake


def answer(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in lake.sql(text).to_arrow().columns), strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select count(*) from db.t", [(3,)]),
        ("select part, count(*) from db.u group by part order by part", [("p", 3), ("q", 1)]),
        ("select id from db.t order by n desc, id", [(2,), (1,), (3,)]),
        ("select id from db.t order by name limit 1", [(3,)]),  # NULL comes first
        ("select a.id, b.id from db.t a join db.u b on a.id = b.t_id order by 2", [(1, 10), (1, 11), (2, 12)]),
        ("select t.id, u.id from db.t left join db.u on t.id = u.t_id and u.part = 'q' order by 1",
         [(1, 11), (2, None), (3, None)]),
        ("select id from db.u where t_id not in (select id from db.t)", [(13,)]),
        ("select id from db.t where exists (select 1 from db.u where t_id = db.t.id) order by id", [(1,), (2,)]),
        ("with x as (select t_id, count(*) c from db.u group by t_id) select max(c) from x", [(2,)]),
        ("select id, row_number() over (order by id desc) from db.t order by id", [(1, 3), (2, 2), (3, 1)]),
        ("select id from db.t where n = 1 union all select id from db.u where id = 10 order by id", [(1,), (10,)]),
        ("select 7 / 2, 7 div 2, -7 % 3", [(3.5, 3, -1)]),
        ("select price / 3 from db.t where id = 1", [(Decimal("0.5000000000000"),)]),
        ("select sum(price) / count(*) from db.t", [(Decimal("1.250000000000000000000"),)]),
        ("select id, (select max(u.id) from db.u u where u.t_id = a.id) from db.t a order by 1",
         [(1, 11), (2, 12), (3, None)]),
        ("select cast(2.9 as int), cast(-2.9 as int), cast('12' as bigint)", [(2, -2, 12)]),
        ("select day + interval 1 month, date_add(day, 1) from db.t where id = 1",
         [(dt.date(2024, 2, 29), dt.date(2024, 2, 1))]),
        ("select info.b from db.t where info.a is null order by 1", [(None,), ("y",)]),
        ("select id from db.t where id = '2'", [(2,)]),
        ("select * from (values (1, 'a'), (2, 'b')) as v(x, y) where x > 1", [(2, "b")]),
    ],
)  # fmt: skip
def test_a_query_has_spark_s_answer(filled: Lake, text: str, expected: list[tuple[Any, ...]]) -> None:
    assert answer(filled, text) == expected


def test_types_and_names_are_those_of_spark(filled: Lake) -> None:
    found = filled.sql("select count(*), sum(n), avg(price), n + 1, ID, n / 2, max(day) m from db.t group by n, id")
    assert found.to_arrow().schema == pa.schema(
        [
            ("count(1)", pa.int64()),
            ("sum(n)", pa.int64()),
            ("avg(price)", pa.decimal128(14, 6)),
            ("(n + 1)", pa.int32()),
            ("ID", pa.int64()),
            ("(n / 2)", pa.float64()),
            ("m", pa.date32()),
        ]
    )


def test_time_travel_system_tables_hints_and_changes(filled: Lake) -> None:
    filled.sql("insert into db.t (id, name) values (4, 'd')")
    assert answer(filled, "select count(*) from db.t version as of 1") == [(3,)]
    assert answer(filled, "select count(*) from db.t /*+ OPTIONS('scan.snapshot-id' = '1') */") == [(3,)]
    assert answer(filled, "select snapshot_id, commit_kind from db.t$snapshots order by 1 desc limit 1") == [
        (2, "APPEND")
    ]
    text = "select id, _row_kind from table_changes('db.t', 2, 2)"
    assert answer(filled, text) == [(4, "+I")]


def test_a_union_read_has_the_rows_of_the_log(lake: Lake) -> None:
    lake.sql("create table db.l (id int, v int, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    lake.sql("insert into db.l values (1, 1), (2, 2)")
    lake.sql("update db.l set v = 3 where id = 1")
    assert answer(lake, "select sum(v) from db.l /*+ OPTIONS('read.mode' = 'union') */") == [(5,)]


def test_rows_of_a_query_are_written(filled: Lake) -> None:
    filled.sql("insert into db.u select id + 100, n, 'r' from db.t where n > 0")
    assert answer(filled, "select id, t_id from db.u where part = 'r' order by id") == [(101, 1), (102, 2)]
    filled.sql("create table db.s as select name, count(*) as c, sum(price) as p from db.t group by name")
    assert answer(filled, "select * from db.s where name = 'a'") == [("a", 1, Decimal("1.50"))]
    with pytest.raises(InvalidRequest, match="column 'n' of table"):
        filled.sql("insert into db.t (id, n) select 9, 3000000000")
    assert answer(filled, "select count(*) from db.t") == [(3,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 1 / 0", "division by zero"),
        ("select 7 % 0", "division by zero"),
        ("select n + 2147483647 from db.t where id = 2", "[Oo]ut of range|[Oo]verflow"),
        ("select n + 2147483647 > 1 from db.t where id = 2", "[Oo]verflow"),
        ("select id from db.t where -2147483648 - n < 1 and id = 2", "[Oo]verflow"),
        ("select n * 2147483647 = 5 from db.t where id = 2", "[Oo]verflow"),
        ("select cast(3000000000 as int)", "[Oo]ut of range|[Cc]onversion|3000000000"),
    ],
)
def test_a_value_that_spark_refuses_is_an_error(filled: Lake, text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        filled.sql(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("select hash(name) from db.t", r"hash\(\)"),
        ("select exp(n) from db.t", "exp"),
        ("select upper('straße')", "the case of a letter"),
        ("select cast('1.5' as int)", "a text as a number"),
        ("select name rlike 'a$' from db.t", "regexplike with this pattern"),
        ("select id from db.t where name = n", "of STRING and INT|of INT and STRING"),
    ],
)
def test_a_part_with_another_meaning_is_named(filled: Lake, text: str, part: str) -> None:
    with pytest.raises(NotInstalled, match=part + ".* needs Spark"):
        filled.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "select key from db.t lateral view explode(map(1, 2)) e",
        "select col1 from values (1)",
        "select v.col1 from (values (1)) v",
        "select user from db.t",
        "select `sum(id)` from (select sum(id) from db.t)",
        "insert into db.u (id) select id from range(10)",
    ],
)
def test_a_name_that_spark_gives_is_left_to_it(filled: Lake, text: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"(resolved here|range\(\)) needs Spark"):
        filled.sql(text, engine="local")


def test_decimals_that_are_too_long_for_64_bits_are_exact(lake: Lake) -> None:
    lake.sql("create table db.d (a decimal(18, 2), b decimal(18, 2))")
    lake.sql("insert into db.d values (9999999999999999.99, 9999999999999999.99)")
    assert answer(lake, "select a * b from db.d") == [(Decimal("99999999999999999800000000000000.0001"),)]


def test_files_and_merged_rows_are_read_together(lake: Lake) -> None:
    lake.sql("create table db.m (id int, v int, primary key (id)) tblproperties ('bucket' = '2')")
    for step in range(4):
        lake.sql("insert into db.m values " + ", ".join(f"({i}, {step})" for i in range(step, 40)))
    lake.table("db.m").compact()
    lake.sql("insert into db.m values (0, 9)")
    assert answer(lake, "select sum(v), count(*) from db.m") == [(9 + 1 + 2 + 3 * 37, 40)]
    assert answer(lake, "select a.v from db.m a join db.m b on a.id = b.id where a.id = 0") == [(9,)]


def test_an_error_of_a_read_stays_what_it_is(filled: Lake) -> None:
    filled.sql("call sys.create_tag('db.t', 'x')")
    with pytest.raises(lakelog.errors.LakelogError, match="'nope'"):
        filled.sql("select id from db.t version as of 'nope'")
    with pytest.raises(InvalidSchema, match="no column 'nam', did you mean 'name'"):
        filled.sql("select nam from db.t")


def test_a_time_has_the_zone_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with lakelog.connect(tmp_path, settings={"spark.sql.session.timeZone": "Europe/Paris"}) as lake:
        found = lake.sql("select timestamp'2024-07-01 00:00:00' as t, hour(timestamp'2024-07-01 05:00:00') as h")
        assert found.to_arrow().to_pylist() == [{"t": dt.datetime(2024, 6, 30, 22, tzinfo=dt.UTC), "h": 5}]


def test_explain_says_which_engine_and_what_it_reads(filled: Lake) -> None:
    (plan,) = answer(filled, "explain select name, count(*) from db.t where id > 1 group by name")[0]
    assert plan.startswith("== Engine ==\nDuckDB in this process")
    assert "db.t: columns id, name; filter (id > 1)" in plan
    assert "== DuckDB ==" in plan
    (write,) = answer(filled, "explain insert into db.u select id, n, 'x' from db.t")[0]
    assert write.startswith("== Write ==")
    assert answer(filled, "select count(*) from db.u") == [(4,)]


def test_a_caller_chooses_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lakelog.connect(tmp_path) as lake:
        monkeypatch.setattr("lakelog.lake.lazy_engine.can_start_spark", lambda: True)
        assert lake.sql("select 1 as n", engine="local").to_arrow().to_pylist() == [{"n": 1}]
        with pytest.raises(UnsupportedFeature, match=r"hash\(\) needs Spark: leave engine = 'local' out"):
            lake.sql("select hash(1)", engine="local")
        with pytest.raises(InvalidRequest, match="engine = 'flink' is unknown"):
            lake.sql("select 1", engine="flink")  # type: ignore[arg-type]
        assert not lake._engine.is_started


@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_the_largest_number_in_conditions_on_files(lake: Lake, kind: str) -> None:
    """Statistics of a Parquet file leave it out."""
    lake.sql(f"create table db.n (id int, w {kind})")
    floats = pa.float64() if kind == "double" else pa.float32()
    rows = pa.table({"id": pa.array([0, 1], pa.int32()), "w": pa.array([-1.5, float("nan")], floats)})
    lake.write(rows, "db.n")
    for condition in ("w > 1.5", "w >= 1.5", "w = double('NaN')", "not (w < 1.5)", "not (w <= 100)", "w <> -1.5"):
        assert answer(lake, f"select id from db.n where {condition}") == [(1,)], condition
    assert answer(lake, "select id from db.n where w < 1.5") == [(0,)]
    assert answer(lake, "select count(*), count(*) filter (where w > 1.5) from db.n") == [(2, 1)]
