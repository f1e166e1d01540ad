"""Values that statements and frames assign to columns: as Spark's own tables take them, or an error, never another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog import Lake
from lakelog.errors import InvalidSchema, LakelogError, UnsupportedFeature

_STATEMENTS = {
    "insert": "insert into db.t select 1, {0}",
    "update": "update db.t set v = {0}",
    "merge": "merge into db.t t using (select 1 id, {0} v) s on t.id = s.id when matched then update set v = s.v",
}


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(query).collect()), key=repr)


@pytest.fixture
def no_ansi(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.parametrize(
    ("kind", "wrong", "fitting", "expected"),
    [
        ("int", "3000000000L", "-5L", -5),
        ("decimal(5,2)", "cast(12345.678 as decimal(10,3))", "1.25BD", Decimal("1.25")),
        ("int", "'x'", "'7'", 7),
        ("struct<a: array<smallint>>", "named_struct('a', array(70000))", "named_struct('a', array(5L))", {"a": [5]}),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_without_ansi_mode(
    lake: Lake, no_ansi: None, kind: str, wrong: str, fitting: str, expected: Any
) -> None:
    lake.sql(f"create database db; create table db.t (id int, v {kind}, primary key (id)) using lakelog")
    lake.sql("insert into db.t (id) values (1)")
    for text in _STATEMENTS.values():
        with pytest.raises(Exception, match="which has no value"):
            lake.sql(text.format(wrong))
    assert lake.table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": None}]
    lake.sql(_STATEMENTS["update"].format(fitting))
    assert lake.table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "v": expected}]


def test_a_partition_value_that_does_not_fit_is_an_error_without_ansi_mode(lake: Lake, no_ansi: None) -> None:
    lake.sql("create database db; create table db.p (v int, p int) using lakelog partitioned by (p)")
    with pytest.raises(Exception, match="partition column 'p' of table db.p is int, which has no value x"):
        lake.sql("insert into db.p partition (p = 'x') select 1")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "timestamp'2024-01-01 00:00:00'"), ("timestamp", "5"), ("boolean", "double('NaN')"),
        ("string", "array(1)"), ("bigint", "interval '1' day"), ("tinyint", "true"), ("date", "1"),
        ("struct<a: timestamp>", "named_struct('a', 5)"), ("array<boolean>", "array(1)"),
    ],
)  # fmt: skip
def test_a_value_of_another_meaning_is_refused(lake: Lake, kind: str, value: str) -> None:
    lake.sql(f"create database db; create table db.t (v {kind}) using lakelog")
    with pytest.raises(InvalidSchema, match="column 'v' of table db.t is .* but the query gives .*: cast it"):
        lake.sql(f"insert into db.t select {value}")
    if "struct" in kind:
        return
    lake.sql(f"create or replace table db.t (id int, v {kind}, primary key (id)); insert into db.t values (1, null)")
    for statement in (_STATEMENTS["update"], _STATEMENTS["merge"]):
        with pytest.raises(LakelogError, match=r"cast it|data type|Unsupported|interval"):
            lake.sql(statement.format(value))
    assert rows(lake, "select * from db.t") == [(1, None)]


@pytest.mark.parametrize("policy", ["LEGACY", "STRICT"])
def test_another_policy_of_assignments_is_refused_by_name(lake: Lake, spark: SparkSession, policy: str) -> None:
    lake.sql("create database db; create table db.t (id int, v int, primary key (id)); insert into db.t values (1, 1)")
    spark.conf.set("spark.sql.storeAssignmentPolicy", policy)
    try:
        for statement in _STATEMENTS.values():
            with pytest.raises(UnsupportedFeature, match=f"'spark.sql.storeAssignmentPolicy' = '{policy}'"):
                lake.sql(statement.format("2"))
        lake.sql("delete from db.t where id = 7")
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")
    assert rows(lake, "select * from db.t") == [(1, 1)]


def test_partition_columns_of_the_clause_come_last_as_in_tables_of_spark(lake: Lake, spark: SparkSession) -> None:
    shape = "(p string, v string, q string) {} partitioned by (p, q)"
    lake.sql(f"create table db.t {shape.format('using lakelog')}")
    spark.sql("drop table if exists plain_of_partitions")
    spark.sql(f"create table plain_of_partitions {shape.format('using parquet')}")
    for clause in ("(p, q)", "(p = 'P', q)", "(q, p)"):
        for verb in ("insert into", "insert overwrite")[: 1 + (clause == "(p, q)")]:
            values = ", ".join(f"'{n}'" for n in range(3 - clause.count("=")))
            for table in ("db.t", "plain_of_partitions"):
                (lake if table == "db.t" else spark).sql(f"{verb} {table} partition {clause} select {values}")
            plain = [tuple(row) for row in spark.sql("select p, v, q from plain_of_partitions").collect()]
            assert rows(lake, "select p, v, q from db.t") == sorted(plain, key=repr), clause
    spark.sql("drop table plain_of_partitions")


def test_fields_of_structs_go_by_position_with_a_list_of_columns(lake: Lake) -> None:
    lake.sql("create database db; create table db.t (id int, s struct<a: int, b: int>) using lakelog")
    lake.sql("insert into db.t (s, id) select named_struct('b', 2, 'a', 1), 1")
    assert rows(lake, "select s.a, s.b from db.t") == [(2, 1)]


@pytest.mark.parametrize("given", ["named_struct('City', 'Oslo')", "named_struct('ctiy', 'Oslo')"])
@pytest.mark.parametrize("around", ["{}", "array({})", "map('k', {})"])
def test_fields_of_frames_go_by_name(lake: Lake, spark: SparkSession, given: str, around: str, tmp_path: Path) -> None:
    kind = {"{}": "{}", "array({})": "array<{}>", "map('k', {})": "map<string, {}>"}[around].format(
        "struct<city: string>"
    )
    lake.sql(f"create table db.t (id bigint, address {kind}) using lakelog")
    frame = spark.sql(f"select 1L ID, {around.format(given)} address")
    ways = {
        "write": lambda: lake.write(frame, "db.t"),
        "save": lambda: frame.write.format("lakelog").mode("append").save("db.t"),
    }
    for way in ways.values():
        if "City" in given:
            way()
        else:
            with pytest.raises(Exception, match="has no field 'ctiy', did you mean 'city'"):
                way()
    found = lake.table("db.t").scan().to_arrow()["address"].to_pylist()
    value = {"{}": {"city": "Oslo"}, "array({})": [{"city": "Oslo"}], "map('k', {})": [("k", {"city": "Oslo"})]}[around]
    assert found == ([value] * 2 if "City" in given else [])


def test_times_of_a_day_are_kept_by_statements(lake: Lake) -> None:
    lake.sql("create database db; create table db.t (id bigint, v time(3), w int, primary key (id)) using lakelog")
    times = pa.array([dt.time(1, 2, 3), dt.time(4, 5)], pa.time32("ms"))
    lake.write(pa.table({"id": [1, 2], "v": times, "w": pa.array([1, 2], pa.int32())}), "db.t")
    for text in (
        "update db.t set w = w + 1 where id = 2",
        "delete from db.t where id = 1",
        "merge into db.t t using (select 2 id, 9 w) s on t.id = s.id when matched then update set w = s.w",
        "insert into db.t select id + 10, v, w from db.t",
        "insert into db.t select 3, time'23:59:59.999', 1",
    ):
        lake.sql(text)
    found = lake.table("db.t").scan().to_arrow().sort_by("id").to_pylist()
    last = {"id": 3, "v": dt.time(23, 59, 59, 999_000), "w": 1}
    assert found == [{"id": 2, "v": dt.time(4, 5), "w": 9}, last, {"id": 12, "v": dt.time(4, 5), "w": 9}]


def test_nested_columns_with_null_are_read_after_a_merge(lake: Lake) -> None:
    lake.sql("create table db.t (id int, v array<struct<x: int>>, m map<string, struct<x: int>>, primary key (id))")
    lake.sql(
        "insert into db.t values (1, array(named_struct('x', 1)), null), (2, null, map('k', named_struct('x', 1)))"
    )
    lake.sql("insert into db.t values (1, array(named_struct('x', 2)), null)")
    assert rows(lake, "select id, v[0].x, m['k'].x from db.t") == [(1, 2, None), (2, None, 1)]


def test_char_keys_have_one_spelling(lake: Lake) -> None:
    lake.sql("create database db; create table db.t (c char(5), v int, primary key (c)) using lakelog")
    lake.sql("insert into db.t values ('ab', 1), ('cd', 1); insert into db.t select 'ab  ', 2")
    assert rows(lake, "select * from db.t where c = 'ab'") == [("ab   ", 2)]
    lake.sql("update db.t set v = 3 where c = 'ab'; delete from db.t where c > 'ab'")
    assert rows(lake, "select * from db.t") == [("ab   ", 3)]
    assert lake.table("db.t").scan(filter="c = 'ab'").to_arrow().to_pylist() == [{"c": "ab   ", "v": 3}]


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_columns_of_nested_types_have_defaults(lake: Lake, key: str) -> None:
    lake.sql(
        "create database db; create table db.t (id int, a array<int> default array(1, NULL), "
        r"m map<string, int> default map('it\'s', 1), s struct<x: int, y: array<string>> "
        f"default named_struct('x', 1, 'y', array('b')){key})"
    )
    lake.sql("insert into db.t (id) values (1)")
    lake.sql("insert into db.t (id) select cast(id as int) from range(2, 3)")
    lake.sql("insert into db.t values (3, default, default, default), (4, null, null, null)")
    lake.sql("update db.t set a = default, m = default, s = default where id = 4")
    found = lake.table("db.t").scan().to_arrow().sort_by("id").drop_columns(["id"]).to_pylist()
    assert found == [{"a": [1, None], "m": [("it's", 1)], "s": {"x": 1, "y": ["b"]}}] * 4
    lake.sql("alter table db.t alter column a set default array(7)")
    with pytest.raises(InvalidSchema, match="cannot be the default of column 'a'"):
        lake.sql("alter table db.t alter column a set default array('x')")
