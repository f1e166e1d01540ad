"""A terminal whose statements need Spark: rows, streams, cancellation, limits, and where errors lie."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.service.terminal import Limits, Privilege, Terminal, TerminalConfig
from terminals import done, last, rows, run, until

BYTES = 9_000
LOG = "/*+ OPTIONS('read.mode' = 'log', 'scan.startup.mode' = 'earliest') */"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("terminal") / "warehouse")


@pytest.fixture(scope="module")
def shared(warehouse: str) -> Iterator[Terminal]:
    limits = Limits(max_rows=50, max_bytes=BYTES, cancel_s=30)
    with Terminal(TerminalConfig(warehouse, role=Privilege.ADMIN, limits=limits)) as terminal:
        done(
            terminal,
            "CREATE DATABASE db; CREATE TABLE db.t (id INT, name STRING, PRIMARY KEY (id)) USING lakelog; "
            "CREATE TABLE db.log_table (id INT, name STRING, PRIMARY KEY (id)) USING lakelog "
            "TBLPROPERTIES ('log-store.enabled' = 'true'); "
            "CREATE TABLE db.sink (id INT, name STRING, PRIMARY KEY (id)) USING lakelog",
        )
        yield terminal


@pytest.fixture
def terminal(shared: Terminal) -> Iterator[Terminal]:
    """The one terminal of the module, with its limits as they were and nothing running in it afterwards."""
    config = shared.config
    yield shared
    shared.config = config
    for execution in shared.executions():
        execution.cancel()
        execution.wait(120)


def write(warehouse: str, table: str, first: int, count: int) -> None:
    """Rows by another process's way, without Spark."""
    with connect(warehouse=warehouse) as lake, lake.table(table).writer() as writer:
        numbers = range(first, first + count)
        writer.write(pa.table({"id": pa.array(numbers, pa.int32()), "name": [f"n{n}" for n in numbers]}))


def test_an_insert_reports_its_snapshot_and_a_select_its_rows(terminal: Terminal) -> None:
    execution = done(terminal, "INSERT INTO db.t VALUES (1, 'a'), (2, 'b');\nSELECT * FROM db.t ORDER BY id")
    insert, select = execution.snapshot().statements
    assert insert.message == "snapshot 1 of table db.t: 2 rows more in its files (2)"
    assert execution.rows(0) == [[2, 0, 0, 2]]
    names = ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [c["name"] for c in insert.columns] == names
    assert execution.rows(1) == [[1, "a"], [2, "b"]]
    assert [dict(c) for c in select.columns] == [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]
    assert (select.rows, select.truncated, select.message) == (2, False, None)
    assert rows(terminal, "SELECT snapshot_id FROM db.`t$snapshots`") == [[1]]
    assert rows(terminal, "SELECT count(*) FROM db.t VERSION AS OF 1") == [[2]]


def test_values_are_those_that_json_and_a_browser_have(terminal: Terminal) -> None:
    found = rows(
        terminal,
        "SELECT 9007199254740993L AS big, 1.50BD AS price, double('NaN') AS nan, X'0aff' AS raw, "
        "timestamp_ntz'2024-01-02 03:04:05' AS t, map('a', 1) AS m, "
        "named_struct('x', array(9007199254740993L)) AS s, NULL AS nothing",
    )
    number = "9007199254740993"
    assert found == [[number, "1.50", "NaN", "0x0aff", "2024-01-02T03:04:05", {"a": 1}, {"x": [number]}, None]]


def test_more_rows_than_the_limit_are_cut_and_the_message_says_so(terminal: Terminal) -> None:
    execution = done(terminal, "SELECT id FROM range(51)")
    assert (last(execution).rows, last(execution).truncated) == (50, True)
    assert "only the first 50 rows are shown" in str(last(execution).message)
    assert execution.rows() == [[n] for n in range(50)]
    assert last(done(terminal, "SELECT id FROM range(50)")).truncated is False


def test_more_bytes_than_the_limit_are_cut(terminal: Terminal) -> None:
    execution = done(terminal, "SELECT repeat('x', 1000) FROM range(40)")
    assert last(execution).truncated and 0 < (last(execution).rows or 0) < 40
    assert f"only {BYTES} bytes are shown" in str(last(execution).message)


@pytest.mark.parametrize(
    ("text", "kind", "line", "column"),
    [
        ("SELECT id,\n  nam FROM db.t", "InvalidSchema", 2, 3),
        ("SHOW TABLES IN db;\nSELECT id FROM db.t x y = 1", "UnsupportedStatement", 2, 23),
        ("SELECT 1;\n\n   SELECT abs() + 1", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", 3, 11),
        ("SELECT *\nFROM db.missing", "NotFound", 2, 6),
        ("SELECT cast('x' AS int) +\n raise_error('it broke')", "USER_RAISED_EXCEPTION", None, None),
    ],
)
def test_an_error_of_spark_lies_where_the_user_wrote_it(
    terminal: Terminal, text: str, kind: str, line: int | None, column: int | None
) -> None:
    error = last(run(terminal, text)).error
    assert error is not None
    if line is not None:
        assert (error.kind, error.line, error.column) == (kind, line, column)
    assert "lakelog_" not in error.message and "JVM" not in error.message


def test_views_and_options_of_the_session_last_from_text_to_text(terminal: Terminal) -> None:
    done(terminal, "CREATE TEMPORARY VIEW doubled AS SELECT id * 2 AS two FROM range(3)")
    assert rows(terminal, "SELECT sum(two) FROM doubled") == [[6]]
    done(terminal, "SET spark.sql.session.timeZone = Asia/Tokyo")
    assert rows(terminal, "SELECT current_timezone()") == [["Asia/Tokyo"]]


def test_long_work_reports_progress_and_ends_when_cancelled(terminal: Terminal) -> None:
    pid = terminal.state().pid
    execution = terminal.submit("SELECT max(id) FROM (SELECT id FROM range(0, 4000000000000, 1, 8)); SELECT 1")
    waiting = terminal.submit("SELECT 2")
    events = execution.events(wait_s=60)
    progress = next((e for e in events if e.kind == "progress" and e.data["running"]), None)
    assert progress is not None, (execution.snapshot(), list(execution.events(wait_s=0)))
    assert progress.data["tasks"] >= 8 and progress.data["done"] == 0
    assert waiting.snapshot().waiting is not None
    execution.cancel()
    assert execution.wait(120) == "cancelled"
    assert [s.state for s in execution.snapshot().statements] == ["cancelled", "skipped"]
    assert waiting.wait(120) == "done" and waiting.rows() == [[2]]
    assert terminal.state().pid == pid


def test_a_statement_that_takes_too_long_is_stopped_and_says_so(terminal: Terminal) -> None:
    pid = terminal.state().pid
    terminal.config = replace(terminal.config, limits=replace(terminal.config.limits, statement_s=1.5))
    execution = run(terminal, "SELECT max(id) FROM range(0, 4000000000000, 1, 8)")
    error = last(execution).error
    assert execution.state == "failed" and error is not None
    assert error.kind == "TimeLimit" and "longer than 1.5 s" in error.message
    assert rows(terminal, "SELECT 3") == [[3]]
    assert terminal.state().pid == pid


def test_a_streaming_select_shows_rows_during_other_statements(terminal: Terminal, warehouse: str) -> None:
    done(terminal, "CREATE TABLE db.streamed_table LIKE db.log_table")
    write(warehouse, "db.streamed_table", 0, 10)
    execution = terminal.submit(f"SELECT id, name FROM db.streamed_table {LOG}")
    until(lambda: len(execution.rows()) == 10, "the rows that are there")
    assert execution.state == "running"
    assert rows(terminal, "SELECT count(*) FROM db.streamed_table") == [[10]]

    write(warehouse, "db.streamed_table", 10, 60)
    until(lambda: [69, "n69"] in execution.rows(), "the rows that come")
    assert 50 <= len(execution.rows()) < 70  # the newest are kept
    assert [0, "n0"] not in execution.rows()
    assert last(execution).rows == 70 or last(execution).rows == 60  # all, or the newest 50 of one micro-batch
    (stream,) = terminal.streams()
    assert (stream.execution, stream.statement) == (execution.id, 0)
    assert stream.progress["active"] is True

    execution.cancel()
    assert execution.wait(120) == "cancelled"
    assert terminal.streams() == ()
    assert [e.kind for e in execution.events()][-1] == "ended"


def test_a_streaming_insert_is_listed_with_its_progress_and_can_be_stopped(terminal: Terminal, warehouse: str) -> None:
    write(warehouse, "db.log_table", 0, 70)
    execution = terminal.submit(f"INSERT INTO db.sink SELECT id, name FROM db.log_table {LOG}; SHOW TABLES IN db")
    until(lambda: execution.snapshot().statements[1:] and last(execution).state == "done", "what is behind it runs")
    until(lambda: rows(terminal, "SELECT count(*) FROM db.sink") == [[70]], "its rows are there")
    until(lambda: terminal.streams() and (terminal.streams()[0].progress["batch"] or 0) >= 0, "its progress")
    (stream,) = terminal.streams()
    assert stream.text.startswith("INSERT INTO db.sink")
    assert execution.state == "running"
    terminal.stop_stream(execution.id, 0)
    assert execution.wait(120) == "cancelled"
    assert [s.state for s in execution.snapshot().statements] == ["cancelled", "done"]


def test_a_stream_that_fails_says_why(terminal: Terminal, warehouse: str) -> None:
    write(warehouse, "db.log_table", 0, 1)
    execution = run(terminal, f"SELECT raise_error(concat('row ', id)) FROM db.log_table {LOG}")
    error = last(execution).error
    assert execution.state == "failed" and error is not None and "row 0" in error.message


def test_the_number_of_parallel_streams_is_limited(terminal: Terminal) -> None:
    text = f"SELECT id FROM db.log_table {LOG}"
    execution = terminal.submit("; ".join([text] * 5))
    until(lambda: execution.snapshot().statements[4:] and last(execution).state == "failed", "the fifth is refused")
    assert "run in this terminal" in str(last(execution).error)
    execution.cancel()
    assert execution.wait(120) == "failed"


def test_the_end_of_sparks_process_is_reported_and_the_next_statement_starts_a_new_one(terminal: Terminal) -> None:
    assert rows(terminal, "SELECT 1") == [[1]]
    pid = terminal.state().pid or 0
    java = next(child for child in psutil.Process(pid).children(recursive=True) if child.name() == "java")
    execution = terminal.submit("SELECT max(id) FROM range(0, 4000000000000, 1, 8)")
    next(e for e in execution.events(wait_s=60) if e.kind == "progress")
    os.kill(java.pid, signal.SIGKILL)
    assert execution.wait(120) == "failed"
    assert "the process of the terminal ended" in str(execution.snapshot().error)
    assert rows(terminal, "SELECT 2") == [[2]]
    assert terminal.state().pid != pid
    assert not Path(f"/proc/{pid}").exists()


def test_a_terminal_above_its_memory_limit_restarts(terminal: Terminal) -> None:
    before = terminal.state()
    execution = terminal.submit("SELECT max(id) FROM range(0, 4000000000000, 1, 8)")
    next(e for e in execution.events(wait_s=60) if e.kind == "progress")
    terminal.config = replace(terminal.config, limits=replace(terminal.config.limits, memory_bytes=100 << 20))
    assert execution.wait(120) == "failed"
    error = execution.snapshot().error
    assert error is not None and error.kind == "MemoryLimit" and "limit of 100 MiB" in error.message
    assert not psutil.pid_exists(before.pid or 0)
