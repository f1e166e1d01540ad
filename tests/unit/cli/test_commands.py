"""The commands against a lake that is only a script of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyspark.sql.types import StructType

from lakelog.cli import tables as describe_module
from lakelog.cli import tables as tables_module
from lakelog.cli.rows import sql as sql_module
from lakelog.cli.rows import streams as tail_module


class Frame:
    """What the command uses of a DataFrame."""

    schema = StructType()

    def __init__(self, rows: pa.Table, streaming: bool = False) -> None:
        self.rows, self.isStreaming = rows, streaming
        self.limits: list[int] = []

    def limit(self, number: int) -> Frame:
        self.limits.append(number)
        return Frame(self.rows.slice(0, number))

    def toArrow(self) -> pa.Table:
        return self.rows


class Query:
    """What the command uses of a StreamingQuery."""

    def __init__(self, failure: Exception | None = None, ends: bool = True) -> None:
        self.failure, self.ends, self.stopped = failure, ends, False

    def awaitTermination(self, seconds: float) -> bool:
        if self.failure:
            raise self.failure
        return self.ends

    def stop(self) -> None:
        self.stopped = True


class FakeTable:
    def tail(self, start: str, stop: str | None) -> Iterator[pa.RecordBatch]:
        assert (start, stop) == ("earliest", "latest")
        for number in range(3):
            yield pa.record_batch({"id": [number], "_row_kind": ["+I"]})

    def describe(self, extended: bool) -> list[tuple[str, str, str]]:
        more = [("location", "/w/db.db/t", "")] if extended else []
        return [("id", "int", ""), ("name", "string", "a name"), *more]


class FakeLake:
    def __init__(self, results: list[Any]) -> None:
        self.results, self.closed, self.text = results, False, ""

    def run(self, text: str) -> list[Any]:
        self.text = text
        return self.results

    def table(self, name: str) -> FakeTable:
        assert name == "db.t"
        return FakeTable()

    def list_tables(self, database: str | None) -> list[str]:
        return [name for name in ("a.x", "b.y") if database in (None, name[0])]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    made = FakeLake([])
    for module in (sql_module, tail_module, tables_module, describe_module):
        monkeypatch.setattr(module, "connect", lambda warehouse: made)
    return made


def invoke(command: click.Command, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=stdin, catch_exceptions=False)


def test_sql_prints_every_result_that_has_rows_and_nothing_else(lake: FakeLake) -> None:
    lake.results = [None, pa.table({"a": [1, 2]}), Frame(pa.table({"b": ["x"]}))]
    answer = invoke(sql_module.sql, "--format", "jsonl", "create …; show …; select …")
    assert [json.loads(line) for line in answer.stdout.splitlines()] == [{"a": 1}, {"a": 2}, {"b": "x"}]
    assert lake.closed


@pytest.mark.parametrize("how", ["argument", "stdin", "file"])
def test_sql_takes_its_text_from_the_argument_stdin_or_a_file(lake: FakeLake, how: str, tmp_path: Any) -> None:
    script = tmp_path / "script.sql"
    script.write_text("select 1")
    arguments = {"argument": ["select 1"], "stdin": [], "file": ["-f", str(script)]}[how]
    invoke(sql_module.sql, *arguments, stdin="select 1" if how == "stdin" else None)
    assert lake.text == "select 1"


def test_sql_asks_spark_for_no_more_rows_than_it_shows(lake: FakeLake) -> None:
    many = Frame(pa.table({"n": range(1000)}))
    lake.results = [many]
    drawn = invoke(sql_module.sql, "select")
    assert drawn.stderr == "the first 100 rows; --limit shows more\n"
    invoke(sql_module.sql, "--limit", "5", "select")
    everything = invoke(sql_module.sql, "--format", "csv", "select")
    assert len(everything.stdout.splitlines()) == 1001
    assert many.limits == [101, 6]


def test_sql_prints_a_streaming_select_as_its_rows_come(lake: FakeLake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Streams:
        def create(self, name: str, *given: Any) -> Iterator[pa.Table]:
            asked.append(given[1:])
            return iter([pa.table({"n": [1]}), pa.table({"n": [2, 3]})])

    monkeypatch.setattr(sql_module, "_STREAMS", Streams())
    lake.results = [Frame(pa.table({}), streaming=True)]
    answer = invoke(sql_module.sql, "--format", "jsonl", "--seconds", "3", "--limit", "2", "select")
    assert answer.stdout.splitlines() == ['{"n":1}', '{"n":2}']
    assert asked == [(3.0, 2)]


def test_sql_waits_for_a_running_insert_until_it_ends(lake: FakeLake) -> None:
    ends = Query()
    lake.results = [ends]
    assert invoke(sql_module.sql, "insert …").exit_code == 0
    assert not ends.stopped


def test_sql_stops_a_running_insert_after_its_seconds(lake: FakeLake) -> None:
    runs = Query(ends=False)
    lake.results = [runs]
    assert invoke(sql_module.sql, "--seconds", "0", "insert …").exit_code == 0
    assert runs.stopped


def test_a_failed_streaming_insert_fails_the_command_and_stops_the_others(lake: FakeLake) -> None:
    other = Query(ends=False)
    lake.results = [other, Query(failure=RuntimeError("task failed"))]
    with pytest.raises(RuntimeError, match="task failed"):
        invoke(sql_module.sql, "insert …; insert …")
    assert other.stopped
    assert lake.closed


def test_tail_prints_row_kinds_and_ends_at_the_limit(lake: FakeLake) -> None:
    arguments = ["db.t", "--start", "earliest", "--stop", "latest", "--limit", "2", "--format", "jsonl"]
    answer = invoke(tail_module.tail, *arguments)
    assert answer.stdout.splitlines() == ['{"id":0,"_row_kind":"+I"}', '{"id":1,"_row_kind":"+I"}']
    assert lake.closed


def test_tables_lists_all_databases_or_one(lake: FakeLake) -> None:
    assert invoke(tables_module.tables, "--format", "csv").stdout == "database,table\na,x\nb,y\n"
    assert invoke(tables_module.tables, "b", "--format", "csv").stdout == "database,table\nb,y\n"


def test_describe_shows_columns_and_on_demand_everything(lake: FakeLake) -> None:
    plain = invoke(describe_module.describe, "db.t", "--format", "csv").stdout
    assert plain == "name,type,comment\nid,int,\nname,string,a name\n"
    assert "location" in invoke(describe_module.describe, "db.t", "--extended", "--format", "csv").stdout
