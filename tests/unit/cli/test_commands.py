"""``lakelog sql`` against Spark that is only a script of answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyspark.sql.types import StructType

from lakelog.cli.rows import sql as sql_module


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


class FakeLake:
    def __init__(self, results: list[Any]) -> None:
        self.results, self.closed, self.text = results, False, ""

    def run(self, text: str) -> list[Any]:
        self.text = text
        return self.results

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    made = FakeLake([])
    monkeypatch.setattr(sql_module, "connect", lambda warehouse: closing(made))
    return made


def invoke(command: click.Command, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=stdin, catch_exceptions=False)


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
