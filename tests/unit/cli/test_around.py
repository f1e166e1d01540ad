"""What stands around the commands: the configuration, quiet, log lines, completion, metrics, the doctor."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import lakelog
from lakelog.cli.console.connection import WarehouseConfig, warehouse_config
from lakelog.cli.console.output import PRINTERS
from lakelog.cli.main import COMMANDS
from lakelog.cli.main import lakelog as command
from lakelog.errors import InvalidOption, NotFound
from lakelog.io.metrics import METER


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAKELOG_METRICS_DIR", "")
    logger = logging.getLogger("lakelog")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    place = tmp_path / "warehouse"
    lake = lakelog.connect(warehouse=str(place))
    lake.sql("create database db; create table db.orders (id int, primary key (id)); create table db.other (id int)")
    lake.table("db.orders").write(pa.table({"id": pa.array([1], pa.int32())}))
    return place


def invoke(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(command, arguments, env=environment)


# the configuration


def configured(tmp_path: Path, text: str) -> str:
    file = tmp_path / "lakelog.toml"
    file.write_text(text)
    return str(file)


def test_the_configuration_says_where_the_warehouse_is(warehouse: Path, tmp_path: Path) -> None:
    file = configured(tmp_path, f'warehouse = "{warehouse}"\n')
    assert "orders" in invoke("--config", file, "tables").output
    assert "orders" in invoke("tables", LAKELOG_CONFIG=file).output
    given = invoke("--config", file, "tables", "--warehouse", str(tmp_path / "none"), "--format", "jsonl")
    assert given.output == "", "what is given on the command line wins"


def test_the_configuration_has_options_of_the_catalog_and_further_catalogs(warehouse: Path, tmp_path: Path) -> None:
    names = f"sqlite:///{tmp_path}/names.db"
    file = configured(
        tmp_path,
        f'warehouse = "{tmp_path}/other"\n[options]\ncatalog.type = "sql"\ncatalog.uri = "{names}"\n'
        f'[catalogs.prod]\nwarehouse = "{warehouse}"\n',
    )
    made = invoke("--config", file, "sql", "create database here")
    assert made.exit_code == 0, (made.output, made.exception)
    assert (tmp_path / "names.db").exists()
    found = invoke("--config", file, "head", "prod.db.orders", "--format", "jsonl")
    assert found.output == '{"id":1}\n', found.exception


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "warehose = 'x'",
            "has the unknown part 'warehose'; known: warehouse, options, catalogs, settings, properties",
        ),
        ("warehouse = ", "cannot be read"),
        ("options = 'x'", r"'options' in the configuration .* must be a table: \[options\]"),
    ],
)
def test_a_wrong_configuration_is_reported(tmp_path: Path, text: str, message: str) -> None:
    wrong = invoke("--config", configured(tmp_path, text), "tables").exception
    assert isinstance(wrong, InvalidOption)
    assert re.search(message, str(wrong))


def test_the_configuration_has_the_properties_of_the_client_of_a_mirror(warehouse: Path, tmp_path: Path) -> None:
    lakelog.connect(warehouse=str(warehouse)).sql(
        "create table db.l (id int) tblproperties ('log-store.enabled' = 'true')"
    )
    file = configured(tmp_path, f'warehouse = "{warehouse}"\n[properties]\nsasl.password = "hunter2"\ndebug = "all"\n')
    wrong = invoke("--config", file, "mirror", "db.l", "--to", "kafka://localhost:1/t").exception
    assert isinstance(wrong, InvalidOption) and "'debug'" in str(wrong)
    assert "hunter2" not in str(wrong)


def test_a_missing_configuration_is_reported(tmp_path: Path) -> None:
    wrong = invoke("--config", str(tmp_path / "none.toml"), "tables").exception
    assert isinstance(wrong, NotFound) and "none.toml' does not exist" in str(wrong)


def test_the_secrets_of_a_configuration_are_not_printed(tmp_path: Path) -> None:
    place = WarehouseConfig("w", {"s3.secret-key": "hunter2"}, {"prod": {"s3.secret-key": "hunter2"}})
    assert "hunter2" not in repr(place) + repr(place.reached) + repr(
        WarehouseConfig("w", properties={"sasl.password": "hunter2"})
    )
    assert warehouse_config("w") == WarehouseConfig("w"), "outside of a command"


# quiet, log lines


def test_quiet_leaves_remarks_out(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    for number in range(101):
        lake.sql(f"create table db.t{number} (id int)")
    result = invoke("sql", "show tables in db", "--warehouse", str(tmp_path))
    assert result.stderr == "the first 100 rows; --limit shows more\n"
    quiet = invoke("--quiet", "sql", "show tables in db", "--warehouse", str(tmp_path))
    assert (quiet.stderr, quiet.stdout) == ("", result.stdout)


def test_sql_prints_how_many_rows_a_statement_has_changed(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    script = "insert into db.orders values (2), (3); delete from db.orders where id >= 2; delete from db.orders"
    result = invoke("sql", script, "--warehouse", str(warehouse), "--format", "jsonl")
    keys = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
    expected = [(2, 0, 0, 2), (2, 0, 2, 0), (1, 0, 1, 0)]
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        dict(zip(keys, row, strict=True)) for row in expected
    ]


def test_log_lines_go_to_stderr_as_json(warehouse: Path) -> None:
    arguments = ("compact", "db.orders", "--warehouse", str(warehouse), "--format", "jsonl")
    done = invoke("--log-level", "info", "--log-format", "json", *arguments)
    assert len(done.stdout.splitlines()) == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {"lakelog.commit"} <= {line["logger"] for line in lines}
    assert all(line["table"] == "db.orders" for line in lines)


def test_an_unknown_level_is_refused() -> None:
    assert invoke("--log-level", "loud", "tables").exit_code == 2


# completion


def completed(words: str, incomplete: str = "") -> list[str]:
    made = ShellComplete(command, {}, "lakelog", "_LAKELOG_COMPLETE")
    return [item.value for item in made.get_completions(words.split(), incomplete)]


def test_a_shell_completes_commands_tables_and_what_to_show(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_WAREHOUSE", str(warehouse))
    assert "describe" in completed("", "de")
    assert completed("head", "db.or") == ["db.orders"]
    assert completed("health", "db.") == ["db.orders", "db.other"]
    assert completed("show db.orders", "snap") == ["snapshots"]
    assert completed("call", "create_tag_") == ["create_tag_from_timestamp"]
    assert completed("call create_tag db.orders", "t") == ["tag=", "time_retained="]
    assert "jsonl" in completed("head db.orders --format", "")


def test_the_warehouse_on_the_command_line_is_the_one_that_is_asked(warehouse: Path) -> None:
    assert completed(f"head --warehouse {warehouse}", "db.o") == ["db.orders", "db.other"]


def test_completion_is_silent_where_the_warehouse_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_WAREHOUSE", "ftp://nowhere")
    assert completed("head", "db") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_this_program(shell: str) -> None:
    done = invoke("completion", shell)
    assert done.exit_code == 0
    assert f"_LAKELOG_COMPLETE={shell}_complete" in done.stdout


def test_a_real_bash_completes(warehouse: Path) -> None:
    environment = {
        **os.environ,
        "LAKELOG_WAREHOUSE": str(warehouse),
        "COMP_WORDS": "lakelog head db.or",
        "COMP_CWORD": "2",
        "_LAKELOG_COMPLETE": "bash_complete",
    }
    asked = [sys.executable, "-m", "lakelog"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "plain,db.orders\n", done.stderr


NO_ROWS = ("demo", "metrics", "dashboard", "serve", "mcp")
"""Commands that print no rows of their own."""


def parameters(name: str) -> dict[str, click.Parameter]:
    found: click.Command = COMMANDS.load(name)
    return {parameter.name or "": parameter for parameter in found.params}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_about_a_table_completes_its_name_and_has_a_form_for_programs(name: str) -> None:
    known = parameters(name)
    for argument in ("table", "tables"):
        if isinstance(known.get(argument), click.Argument):
            assert known[argument]._custom_shell_complete is not None
    if "warehouse" in known and name not in NO_ROWS:
        form = known["format_name"].type
        assert isinstance(form, click.Choice) and set(form.choices) == set(PRINTERS)


# metrics


def test_metrics_prints_what_prometheus_reads(warehouse: Path) -> None:
    METER.reset()
    done = invoke("metrics", "--warehouse", str(warehouse))
    assert 'lakelog_files{table="db.orders"} 1.0' in done.stdout.splitlines()


def test_metrics_serves_until_it_is_interrupted(warehouse: Path) -> None:
    arguments = [sys.executable, "-m", "lakelog", "metrics", "--serve", "--port", "0", "--warehouse", str(warehouse)]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stderr is not None
            url = re.search(r"http://\S+/metrics", served.stderr.readline())
            assert url is not None
            with urllib.request.urlopen(url[0], timeout=120) as answer:
                assert 'lakelog_files{table="db.orders"} 1.0' in answer.read().decode()
            served.send_signal(signal.SIGINT)
            assert served.wait(120) == 0
        finally:
            served.kill()


def test_metrics_on_another_address_needs_a_token(warehouse: Path) -> None:
    wrong = invoke("metrics", "--serve", "--host", "0.0.0.0", "--warehouse", str(warehouse))
    assert "--token-file" in str(wrong.exception)
    missing = invoke("metrics", "--serve", "--token-file", "/none", "--warehouse", str(warehouse))
    assert "cannot read the token in '/none'" in str(missing.exception)


# the doctor


def test_the_doctor_exits_with_1_when_something_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bad = str(tmp_path / "file" / "warehouse")
    done = invoke("doctor", "--only", "storage", "--warehouse", bad)
    assert done.exit_code == 1
    assert done.stdout.startswith("FAIL  storage: ")
    assert "→ check that the path" in done.stdout
    assert done.stdout.endswith("0 passed, 0 warned, 1 failed\n")


def test_the_doctor_prints_the_same_findings_as_json(warehouse: Path) -> None:
    done = invoke("doctor", "--only", "storage", "--only", "catalog", "--warehouse", str(warehouse), "--json")
    assert done.exit_code == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["check"] for line in found} == {"storage", "catalog"}
    assert set(found[0]) == {"check", "outcome", "found", "what_to_do"}
    assert "2 tables in 2 databases" in found[-1]["found"] or "2 tables in 1 databases" in found[-1]["found"]


@pytest.mark.slow
def test_the_doctor_takes_the_properties_of_a_client(tmp_path: Path) -> None:
    given = ["--log", "kafka", "--address", "127.0.0.1:1", "--property", "sasl.password=hunter2"]
    done = invoke("doctor", "--only", "log", "--warehouse", str(tmp_path), *given)
    assert done.exit_code == 1
    assert "hunter2" not in done.output
    wrong = invoke("doctor", "--only", "log", "--warehouse", str(tmp_path), "--property", "hunter2")
    assert wrong.exit_code == 2
    assert "hunter2" not in wrong.output
