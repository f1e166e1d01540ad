"""A terminal whose statements need no Spark: a real worker, its rights, its life and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import orjson
import psutil
import pytest

from lakelog.errors import InvalidRequest, NotFound
from lakelog.service.terminal import AuditLog, Limits, Privilege, Terminal, TerminalConfig
from terminals import done, run, until


def test_statements_run_in_a_process_of_their_own_and_the_last_needs_no_semicolon(admin: Terminal) -> None:
    execution = done(admin, "USE db;\nSHOW TABLES;\n  DESCRIBE t")
    use, show, describe = execution.snapshot().statements
    assert [use.state, show.state, describe.state] == ["done"] * 3
    assert [(s.line, s.column) for s in (use, show, describe)] == [(1, 1), (2, 1), (3, 3)]
    assert [c["name"] for c in describe.columns] == ["col_name", "data_type", "comment"]
    assert execution.rows(2) == [["id", "int", ""], ["name", "string", ""]]
    assert execution.rows(1)[0][1] == "t"
    assert (execution.catalog, execution.database) == ("lakelog", "db")
    state = admin.state()
    assert state.process == "idle"
    assert state.pid != os.getpid() and psutil.pid_exists(state.pid or 0)


def test_the_state_of_an_execution_is_plain_json(admin: Terminal) -> None:
    found = orjson.loads(orjson.dumps(asdict(done(admin, "SHOW TABLES IN db").snapshot())))
    assert found["state"] == "done"
    assert found["statements"][0]["columns"][0] == {"name": "namespace", "type": "string"}


def test_events_are_read_again_from_any_place(admin: Terminal) -> None:
    execution = done(admin, "SHOW TABLES IN db; DESCRIBE db.t")
    events = list(execution.events())
    assert [e.sequence for e in events] == sorted(e.sequence for e in events)
    assert [e.kind for e in events if e.statement is None] == ["started", "parsed", "ended"]
    assert [e.kind for e in events if e.statement == 1] == ["started", "columns", "rows", "ended"]
    middle = events[3].sequence
    assert list(execution.events(after=middle)) == events[4:]
    assert list(execution.events(after=events[-1].sequence, wait_s=0)) == []
    assert execution.snapshot().sequence == events[-1].sequence


def test_an_error_says_where_it_is_in_the_whole_text(admin: Terminal) -> None:
    execution = run(admin, "SHOW TABLES IN db;\n\nDROP TABLE db.t PURGE AND SO ON")
    error = execution.snapshot().error
    assert execution.state == "failed" and error is not None
    assert (error.kind, error.line) == ("UnsupportedStatement", 3)
    assert error.column == len("DROP TABLE db.t PURGE ") + 1
    assert execution.snapshot().statements == ()  # nothing has run

    execution = run(admin, "SHOW TABLES IN db;\n  DESCRIBE db.missing; SHOW CATALOGS")
    first, second, third = execution.snapshot().statements
    assert (first.state, second.state, third.state) == ("done", "failed", "skipped")
    assert second.error is not None
    assert (second.error.kind, second.error.line, second.error.column) == ("NotFound", 2, 12)


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("show tables in db;\nselekt 1", 2, 1, "did you mean 'SELECT'?"),
        ("select (1 + 2", 1, 8, "'(' is not closed"),
        ("select 1;\n\nselect id) from t", 3, 10, "')' has no opening bracket"),
    ],
)
def test_a_typo_is_found_before_anything_runs_and_without_spark(
    admin: Terminal, text: str, line: int, column: int, words: str
) -> None:
    execution = run(admin, text)
    error = execution.snapshot().error
    assert error is not None
    assert (error.line, error.column) == (line, column)
    assert words in error.message
    assert "pos " not in error.message
    assert execution.snapshot().statements == ()  # nothing has run
    assert not any(event.kind == "waiting" for event in execution.events())  # Spark was not started


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_statement_is_an_error(admin: Terminal, text: str) -> None:
    with pytest.raises(InvalidRequest, match="no statement"):
        admin.submit(text)


def test_a_text_of_comments_alone_says_that_it_has_no_statement(admin: Terminal) -> None:
    execution = run(admin, "-- nothing\n;;")
    assert execution.state == "failed"
    assert "no statement" in str(execution.snapshot().error)


def test_catalog_and_database_are_those_of_the_call(admin: Terminal) -> None:
    assert done(admin, "DESCRIBE t", catalog="lakelog", database="db").rows(0)
    failed = run(admin, "DESCRIBE t", database="nowhere").snapshot()
    assert failed.error is not None and failed.error.kind == "NotFound"


def test_every_statement_is_in_the_audit_log_and_no_secret_is(admin: Terminal, audit: AuditLog) -> None:
    run(admin, "SHOW CATALOGS; CREATE CATALOG c WITH ('warehouse' = 's3://b/w', 's3.secret-key' = 'hunter2\nhunter3')")
    run(admin, "CREATE CATALOG d WITH ('warehouse' = '/etc', 'catalog.token' = 'hunter4')")
    run(admin, "SHOW TABLES 'password' = 'hunter5'")
    entries = audit.newest(4)[::-1]
    assert [(e.user, e.role, e.outcome) for e in entries[:1]] == [("ann", "admin", "done")]
    assert entries[0].text == "SHOW CATALOGS" and entries[0].rows == 1 and entries[0].duration_ms is not None
    assert (entries[2].outcome, entries[2].error) == ("refused", "NotAllowed")
    assert entries[3].outcome == "failed"
    assert "hunter" not in audit.path.read_text()
    assert audit.path.stat().st_mode & 0o777 == 0o600
    assert all(json.loads(line)["time_ms"] > 1_600_000_000_000 for line in audit.path.read_text().splitlines())


def test_a_process_that_is_killed_fails_what_ran_and_the_next_statement_has_a_new_one(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, role=Privilege.ADMIN)) as terminal:
        done(terminal, "SHOW DATABASES")
        pid = terminal.state().pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: terminal.state().process == "none", "the terminal sees the end of its process")
        done(terminal, "SHOW DATABASES")
        assert terminal.state().pid != pid


def test_a_process_above_its_memory_is_ended_and_says_so(warehouse: str) -> None:
    limits = Limits(memory_bytes=1 << 20)
    with Terminal(TerminalConfig(warehouse, limits=limits)) as terminal:
        execution = run(terminal, "SHOW DATABASES")
        error = execution.snapshot().error
        assert execution.state == "failed" and error is not None
        assert error.kind == "MemoryLimit" and "limit of 1 MiB" in error.message
        assert terminal.state().process == "none"


@pytest.mark.slow
def test_a_process_without_work_ends_and_the_next_statement_starts_one(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, limits=Limits(idle_s=0.3))) as terminal:
        done(terminal, "SHOW DATABASES")
        pid = terminal.state().pid
        until(lambda: terminal.state().process == "none", "the idle process ends")
        assert not psutil.pid_exists(pid or 0)
        done(terminal, "SHOW DATABASES")


def test_what_waits_says_why_and_can_be_cancelled(warehouse: str) -> None:
    with Terminal(TerminalConfig(warehouse, limits=Limits(max_queued=2))) as terminal:
        first = terminal.submit("SHOW DATABASES")
        waiting = [terminal.submit("SHOW DATABASES") for _ in range(2)]
        with pytest.raises(InvalidRequest, match="2 texts are queued"):
            terminal.submit("SHOW DATABASES")
        told = waiting[0].snapshot()
        assert told.state == "queued" and told.waiting is not None
        assert told.waiting["why"] == f"text {first.id} runs" and "cancel" in told.waiting["what_to_do"]
        waiting[1].cancel()
        assert waiting[1].wait(120) == "cancelled"
        assert waiting[0].wait(120) == first.wait(120) == "done"


def test_a_long_text_is_refused_and_old_texts_are_forgotten(warehouse: str) -> None:
    limits = Limits(max_text_bytes=100, kept_executions=2)
    with Terminal(TerminalConfig(warehouse, limits=limits)) as terminal:
        with pytest.raises(InvalidRequest, match="more than 100 bytes"):
            terminal.submit(f"SHOW TABLES IN {'ü' * 60}")
        made = [done(terminal, "SHOW DATABASES") for _ in range(3)]
        assert [one.id for one in terminal.executions()] == [made[2].id, made[1].id]
        with pytest.raises(NotFound, match="keeps the newest 2"):
            terminal.execution(made[0].id)


@pytest.mark.parametrize(
    ("text", "limits", "why"),
    [
        (f"SELECT {'1 + ' * 50_000}1", Limits(parse_s=0.2), "not parsed within 0.2 s"),
        ("SHOW DATABASES;" * 13_000, Limits(), "13000 statements; the maximum is 1000"),
        (f"CREATE TABLE t (a {'array<' * 20_000}int{'>' * 20_000})", Limits(), "nested too deeply"),
    ],
)
def test_a_hostile_text_is_refused_and_the_next_one_runs(warehouse: str, text: str, limits: Limits, why: str) -> None:
    with Terminal(TerminalConfig(warehouse, limits=limits)) as terminal:
        refused = terminal.submit(text)
        assert refused.wait(120) == "failed"
        error = refused.snapshot().error
        assert error is not None and why in error.message
        done(terminal, "SHOW DATABASES")


def test_a_closed_terminal_leaves_no_process_and_takes_no_text(warehouse: str) -> None:
    terminal = Terminal(TerminalConfig(warehouse))
    done(terminal, "SHOW DATABASES")
    pid = terminal.state().pid
    terminal.close()
    assert not psutil.pid_exists(pid or 0)
    with pytest.raises(InvalidRequest, match="closed"):
        terminal.submit("SHOW DATABASES")


_PARENT = """
import os, sys
from lakelog.service.terminal import Terminal, TerminalConfig
terminal = Terminal(TerminalConfig(sys.argv[1]))
terminal.submit("SHOW DATABASES").wait(120)
pid = terminal.state().pid
print(pid, os.readlink(f"/proc/{pid}/cwd"), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_the_process_ends_with_its_parent_however_that_ends(warehouse: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, warehouse], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None and parent.stdout is not None
    number, directory = parent.stdout.readline().split()
    pid = int(number)
    assert _runs(pid) and Path(directory).exists()
    parent.kill()
    parent.wait()
    until(lambda: not _runs(pid), "the worker ends with its parent", 20)
    assert not Path(directory).exists()
    parent.stdin.close()
    parent.stdout.close()


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
