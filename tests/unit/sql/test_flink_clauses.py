"""Flink's clauses of CREATE TABLE that are no columns of the rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidOption, UnsupportedStatement


@pytest.fixture
def lake(tmp_path):
    made = lakelog.connect(warehouse=str(tmp_path))
    made.sql("create database db")
    return made


def test_a_watermark_clause_sets_the_options_of_the_watermark(lake) -> None:
    lake.sql(
        "create table db.t (id int, ts bigint, watermark for ts as ts - interval '5' second, "
        "primary key (id) not enforced) with ('write-only' = 'true')"
    )
    table = lake.table("db.t")
    assert (table.options["watermark.column"], table.options["watermark.delay"]) == ("ts", "5 second")
    table.write(pa.table({"id": pa.array([1], pa.int32()), "ts": pa.array([60_000], pa.int64())}))
    assert table.latest_snapshot().watermark == 55_000


def test_a_watermark_without_a_delay(lake) -> None:
    lake.sql("create table db.t (id int, ts bigint, watermark for ts as ts) with ()")
    options = lake.table("db.t").definition.options
    assert options["watermark.column"] == "ts" and "watermark.delay" not in options


@pytest.mark.parametrize(
    ("clause", "error", "words"),
    [
        ("watermark for ts as id", UnsupportedStatement, "write AS ts - INTERVAL"),
        ("watermark for ts as ts - 5", UnsupportedStatement, "INTERVAL"),
        ("watermark for ts as ts - interval '5' parsec", InvalidOption, "'watermark.delay' = '5 parsec'"),
        ("id as proctime()", UnsupportedStatement, "'id' is defined twice"),
        ("twice as id * 2", UnsupportedStatement, "is computed"),
        ("p as proctime(3)", UnsupportedStatement, "is computed"),
    ],
)
def test_other_clauses_are_refused(lake, clause: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lake.sql(f"create table db.t (id int, ts bigint, {clause}) with ()")


def test_a_processing_time_is_no_column_of_the_rows(lake) -> None:
    lake.sql("create table db.t (id int, at as proctime(), name string, seen as PROCTIME()) with ()")
    table = lake.table("db.t")
    assert table.schema.names == ["id", "name"]
    assert table.definition.options["lookup.proctime-columns"] == "at,seen"
    table.write(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
