"""The command as a process: help without the heavy parts, errors in one line, exit codes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli import main
from lakelog.errors import CommitConflict, InvalidOption, InvalidSchema, NotFound, OffsetExpired, Unavailable
from lakelog.sql.runtime.spark_errors import lakelog_error_in_text


def test_help_lists_every_command_without_loading_arrow_spark_or_sqlglot() -> None:
    script = (
        "import sys\n"
        "from lakelog.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n"
        "    print(sorted({'pyarrow', 'pyspark', 'polars', 'sqlglot', 'numpy', 'rich'} & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    assert all(f"  {name} " in out for name in main.COMMANDS)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    answer = CliRunner().invoke(main.lakelog, [name, "--help"])
    assert answer.exit_code == 0, answer.output
    assert answer.output.startswith(f"Usage: lakelog {name}")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sqll"], "error: no command 'sqll', did you mean 'sql'?"),
        (["zzzz"], "error: no command 'zzzz': 'lakelog help' lists the commands"),
        (
            ["--warehouse", "w", "tables"],
            "error: no option '--warehouse' before the command: options of a command come",
        ),
        (["sql"], 'error: no statement given: lakelog sql "show tables"\n'),
        (["--debug", "sql"], "error: no statement given"),
    ],
)
def test_a_wrong_request_is_one_line_on_stderr_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("  \n"))
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.splitlines()[-1].startswith(told.rstrip())
    assert "Traceback" in err if "--debug" in arguments else len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (InvalidOption("x"), 2),
        (InvalidSchema("x"), 2),
        (NotFound("x"), 2),
        (OffsetExpired("x"), 2),
        (Unavailable("x"), 1),
        (CommitConflict("x"), 1),
        (RuntimeError("x"), 1),
    ],
)
def test_only_what_the_caller_can_correct_exits_with_2(failure: Exception, code: int) -> None:
    assert main.exit_code(failure) == code


def test_an_error_raised_in_a_spark_task_is_found_in_sparks_text() -> None:
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] failed:\nTraceback …\nlakelog.errors.InvalidSchema: column id is null\n\tat org.x"
    )
    found = lakelog_error_in_text(RuntimeError(text))
    assert (type(found), str(found)) == (InvalidSchema, "column id is null")
    other = RuntimeError("lakelog.errors.Unheard: x")
    assert lakelog_error_in_text(other) is other


def test_an_error_is_always_one_line() -> None:
    assert main.one_line(Unavailable("broker\n  is away")) == "broker is away"
    assert main.one_line(RuntimeError("[CODE] first\n'Project [x]\n")) == "RuntimeError: [CODE] first"
    assert main.one_line(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    ("settings", "encoding", "name"),
    [
        ({"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "utf-8", "ä ─"),
        ({"LC_ALL": "C"}, "utf-8", "ä ─"),
        ({"PYTHONIOENCODING": "latin-1"}, "latin-1", "ä \\u2500"),
    ],
    ids=str,
)
def test_any_locale_can_print_any_text(settings: dict[str, str], encoding: str, name: str, tmp_path: Path) -> None:
    lake = lakelog.connect(tmp_path)
    lake.write(pa.table({"name": ["ä ─"]}), "db.t", create=True)
    command = [sys.executable, "-m", "lakelog", "head", "db.t", "--warehouse", str(tmp_path), "--format", "csv"]
    env = {**{key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}, **settings}
    done = subprocess.run(command, env=env, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert name in done.stdout.decode(encoding)


SERVICES = {
    "tail": (["tail", "db.t", "--start", "earliest"], "stdout"),
    "optimize": (["optimize", "--format", "jsonl"], "stdout"),
    "metrics": (["metrics", "--serve", "--port", "0"], "stderr"),
    "dashboard": (["dashboard", "--port", "0"], "stdout"),
    "follow": (["follow", "db.t"], "lakelog"),
}
"""Services that need no server → how to start them, and what changes when they run."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_is_terminated_ends_with_0(tmp_path: Path, name: str) -> None:
    arguments, sign = SERVICES[name]
    warehouse = tmp_path / "warehouse"
    with lakelog.connect(warehouse) as lake:
        lake.sql("create table db.t (id int, primary key (id)) with ('log-store.enabled'='true', 'write-only'='true')")
        for number in range(6):
            lake.write(pa.table({"id": pa.array([number], pa.int32())}), "db.t")
    state = ["--state", str(tmp_path / "state")] if name == "dashboard" else []
    registered = warehouse / "db.db" / "t" / "lakelog" / "staged" / "follower"
    with subprocess.Popen(
        [sys.executable, "-m", "lakelog", *arguments, *state, "--warehouse", str(warehouse)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as service:
        try:
            if sign == "lakelog":
                while not registered.exists() and service.poll() is None:
                    threading.Event().wait(0.05)
            else:
                assert getattr(service, sign).readline()
            service.send_signal(signal.SIGTERM)
            assert service.wait(120) == 0, service.stderr.read()
        finally:
            service.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_another_command_that_is_ended_cleans_up_and_says_so(monkeypatch, number: signal.Signals, code: int) -> None:
    before, cleaned = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}, []
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell of a job in the background ignores it

    def work(**_: object) -> None:
        try:
            signal.raise_signal(number)
        finally:
            cleaned.append(True)

    monkeypatch.setattr(main.lakelog, "main", work)
    try:
        with pytest.raises(SystemExit) as ended:
            main.main([])
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
    assert (ended.value.code, cleaned) == (code, [True])
