"""TIME columns under Spark, where they are milliseconds of the day: a time that a statement gives is that time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakelog import Lake
from lakelog.errors import UnsupportedFeature

_NOON = dt.time(12, 0, 0, 5000)


@pytest.fixture
def times(lake: Lake) -> Lake:
    lake.run("create database db; create table db.t (id int, w time(3), primary key (id))")
    lake.run("insert into db.t select 1, 1000")
    return lake


def rows(lake: Lake) -> list[Any]:
    return [tuple(row.values()) for row in lake.table("db.t").scan().to_arrow().sort_by("id").to_pylist()]


@pytest.mark.parametrize("given", ["time'12:00:00.005'", "'12:00:00.005'", "43200005"])
def test_every_statement_stores_the_time(times: Lake, given: str) -> None:
    times.run(f"insert into db.t select 2, {given}")
    times.run(f"update db.t set w = {given} where id = 1")
    source = f"(select 2 id, {given} w union all select 3, {given})"
    times.run(
        f"merge into db.t t using {source} q on t.id = q.id when matched then update set w = q.w "
        f"when not matched then insert (id, w) values (q.id, q.w)"
    )
    assert rows(times) == [(1, _NOON), (2, _NOON), (3, _NOON)]
    times.run("update db.t set w = null where id = 1; update db.t set w = w + 1000 where id = 2")
    assert rows(times)[:2] == [(1, None), (2, dt.time(12, 0, 1, 5000))]


@pytest.mark.parametrize(
    "statement",
    [
        "insert into db.t select 2, time'12:00:00.0001'", "update db.t set w = '25:00:00'",
        "update db.t set w = time'12:00:00.0001'", "insert into db.u values (time'12:00:00')",
    ],
)  # fmt: skip
def test_a_time_that_does_not_fit_is_refused(times: Lake, statement: str) -> None:
    times.run("create table db.u (v int)")
    with pytest.raises(Exception, match=r"has no value (12:00:00\.0001|25:00:00)|but the query gives"):
        times.sql(statement)
    assert rows(times) == [(1, dt.time(0, 0, 1))]
    assert times.table("db.u").scan().to_arrow().num_rows == 0


def test_a_time_inside_of_a_column_is_refused(times: Lake) -> None:
    times.run("create table db.s (s struct<a: time(3)>)")
    with pytest.raises(UnsupportedFeature, match="column 's' has type .* not as a part of one"):
        times.sql("select count(s) from db.s").collect()
