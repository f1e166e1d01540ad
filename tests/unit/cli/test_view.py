"""``lakelog view``: what it prints, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli.services.view import view
from lakelog.errors import NotFound


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    lake = lakelog.connect(str(tmp_path))
    lake.sql("create table db.t (id int, v int, primary key (id))")
    write(str(tmp_path), 1)
    lake.views.create("db.z", "select id, v from db.t where v > 0")
    lake.views.create("db.a", "select count(*) as n from db.z", refresh="manual")
    return str(tmp_path)


def write(warehouse: str, number: int) -> None:
    rows = pa.table({"id": pa.array([number], pa.int32()), "v": pa.array([number], pa.int32())})
    lakelog.connect(warehouse).write(rows, "db.t")


def run(warehouse: str, *arguments: str) -> tuple[object, str, str]:
    """The answer (which ``main`` makes the exit code), stdout and stderr."""
    done = CliRunner().invoke(view, [*arguments, "--warehouse", warehouse], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def test_list_shows_names_sources_and_queries(warehouse: str) -> None:
    _, out, _ = run(warehouse, "list", "--format", "jsonl")
    shown = {row["viewName"]: row for row in map(json.loads, out.splitlines())}
    assert shown["z"]["sources"] == "db.t" and shown["a"]["refresh"] == "manual"


def test_refresh_takes_each_view_after_those_that_it_reads(warehouse: str) -> None:
    write(warehouse, 2)
    code, out, _ = run(warehouse, "refresh")
    assert code == 0
    assert out.splitlines() == ["db.z refreshed, 1 rows changed", "db.a refreshed, 1 rows changed"]
    assert run(warehouse, "refresh", "db.a")[1] == "db.a is current, 0 rows changed\n"
    assert lakelog.connect(warehouse).table("db.a").scan(["n"]).to_arrow()["n"].to_pylist() == [2]


def test_a_view_that_fails_is_named_and_the_others_are_refreshed(warehouse: str) -> None:
    lake = lakelog.connect(warehouse)
    lake.sql("create table db.u (id int, primary key (id))")
    lake.views.create("db.b", "select id from db.u")
    lake.sql("drop table db.u")
    write(warehouse, 2)
    code, out, err = run(warehouse, "refresh")
    assert code == 1 and "db.b: " in err and "db.u" in err
    assert "db.z refreshed" in out


def test_rebuild_and_explain(warehouse: str) -> None:
    assert "db.z computed again, 0 rows changed" in run(warehouse, "refresh", "db.z", "--rebuild")[1]
    assert "a change computes: the changed rows alone" in run(warehouse, "explain", "db.z")[1]


def test_an_unknown_view_is_named_with_those_that_exist(warehouse: str) -> None:
    with pytest.raises(NotFound, match=r"no materialized view db\.t; there are: db\.a, db\.z"):
        run(warehouse, "refresh", "db.t")
