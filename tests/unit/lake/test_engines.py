"""The engine of a statement of a lake that could start Spark: this process or Spark, which EXPLAIN says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import lakelog
from lakelog import Lake
from lakelog.errors import InvalidOption
from lakelog.lake.lazy_engine import ENGINES
from lakelog.lake.output.result import SHARED_NAMES, TableResult
from lakelog.table.model.row_counts import RowCounts, row_counts


class SparkStub:
    """A Spark engine that answers each query with the reason why it got it."""

    zone = None

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def is_spark_relation(self, name: str) -> bool:
        return False

    def checks_casts(self) -> bool:
        return True

    def simple_types(self, table: Any) -> dict[str, str]:
        return {}

    def named(self, frames: Any) -> Any:
        return nullcontext(dict.fromkeys(frames, "view"))

    def run_query(self, plan: Any) -> pa.Table:
        return pa.table({"why": [plan.why_spark], "columns": ["of the frame"]})

    def insert(self, *_: Any, **__: Any) -> RowCounts:
        return row_counts(updated=7)


@pytest.fixture(autouse=True)
def spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.lake.lazy_engine.can_start_spark", lambda: True)
    monkeypatch.setattr("lakelog.lake.lazy_engine.has_spark_session", lambda: False)
    monkeypatch.setattr(ENGINES, "create", lambda *_, **__: SparkStub())


def filled(tmp_path: Path, **more: Any) -> Lake:
    with lakelog.connect(tmp_path) as lake:
        lake.sql("create table if not exists db.t (id bigint, name string, primary key (id))")
        lake.write(pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}), "db.t")
    return lakelog.connect(tmp_path, **more)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with filled(tmp_path) as opened:
        yield opened


def reason(lake: Lake, text: str = "select id from db.t") -> str:
    """Why Spark answers a query; "" if it does not."""
    answer = lake.sql(text).to_arrow()
    return str(answer["why"][0]) if "why" in answer.column_names else ""


def test_statements_on_small_tables_start_no_spark(lake: Lake) -> None:
    lake.sql("insert into db.t values (3, 'c')")
    lake.sql("update db.t set name = 'B' where id = 2")
    lake.sql("delete from db.t where id = 1")
    merge = lake.table("db.t").merge(pl.DataFrame({"id": [4], "name": ["d"]}), "t.id = s.id")
    merge.when_not_matched_insert_all().execute()
    assert lake.sql("select id, name from db.t order by id").to_polars().rows() == [(2, "B"), (3, "c"), (4, "d")]
    assert not lake._engine.is_started


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"catalog_options": {"sql.local-size": "64 b"}},
            r"a read of [\d,]+ bytes, more than 'sql.local-size' = 64, needs it",
        ),
        ({"catalog_options": {"sql.local-size": "0"}}, "'sql.local-size' is 0"),
        ({"settings": {"spark.sql.ansi.enabled": "false"}}, "'spark.sql.ansi.enabled' is set, which may change values"),
    ],
)
def test_spark_runs_what_is_large_and_what_may_have_other_values(tmp_path: Path, options: Any, expected: str) -> None:
    with filled(tmp_path, **options) as lake:
        assert re.fullmatch(expected, reason(lake))
        assert reason(lake) == "the lake has a session"
    with filled(tmp_path, **options) as lake:
        assert lake.table("db.t").update({"name": "'x'"}, "id = 1")["num_updated_rows"] == 7


def test_spark_takes_over_a_result_that_is_large(tmp_path: Path) -> None:
    with filled(tmp_path, catalog_options={"sql.local-size": "4 kb"}) as lake:
        assert reason(lake) == ""
        many = ", ".join(f"({n})" for n in range(40))
        text = f"select a.n from (values {many}) a(n), (values {many}) b(n)"
        assert reason(lake, text) == "a result of more than 'sql.local-size' = 4,096 bytes needs it"


def test_the_caller_and_a_session_choose_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lake.sql("select 1 as n", engine="local").to_arrow().to_pylist() == [{"n": 1}]
    monkeypatch.setattr("lakelog.lake.lazy_engine.has_spark_session", lambda: True)
    assert reason(lake) == "this process has a session"
    with filled(Path(lake.warehouse)) as other:
        assert other.sql("select 1 as n", engine="spark").to_arrow()["why"].to_pylist() == ["engine = 'spark'"]


def test_rows_become_a_data_frame_when_it_is_asked_for(lake: Lake) -> None:
    rows = lake.sql("select id from db.t order by id")
    assert (rows.count(), rows.num_rows, rows.collect()[0].id) == (2, 2, 1)
    assert not lake._engine.is_started
    assert rows.schema.names == ["why", "columns"]
    assert lake._engine.is_started


def test_names_with_two_meanings_are_those_of_the_data_frame() -> None:
    both = {name for name in vars(DataFrame).keys() & set(dir(pa.Table)) if not name.startswith("_")}
    assert both - set(dir(TableResult)) == SHARED_NAMES


def test_a_wrong_size_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="'sql.local-size' = 'much'"):
        lakelog.connect(tmp_path, catalog_options={"sql.local-size": "much"})
