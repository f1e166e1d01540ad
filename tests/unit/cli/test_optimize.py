"""``lakelog optimize``: what it prints, in which format, with which exit code."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakelog
from lakelog.cli.maintenance.optimize import optimize
from lakelog.errors import InvalidOption
from lakelog.filestore.store import FileStore


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql("create table db.t (id int, primary key (id)) tblproperties ('write-only' = 'true')")
    for number in range(5):
        lake.table("db.t").write(pa.table({"id": pa.array([number], pa.int32())}))
    return str(tmp_path)


def run(warehouse: str, *arguments: str) -> tuple[object, str, str]:
    """The answer (which ``main`` makes the exit code), stdout and stderr."""
    done = CliRunner().invoke(optimize, [*arguments, "--warehouse", warehouse], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout, done.stderr


def test_a_dry_run_lists_needs_with_reasons_and_runs_nothing(warehouse: str) -> None:
    code, out, _ = run(warehouse, "--dry-run", "--format", "jsonl")
    (planned,) = map(json.loads, out.splitlines())
    assert (code, planned["table"], planned["kind"]) == (0, "db.t", "compaction")
    assert "5 sorted runs" in planned["reason"] and planned["what_to_do"].startswith("lakelog compact db.t")
    assert lakelog.connect(warehouse=warehouse).table("db.t").latest_snapshot().id == 5


def test_once_prints_a_line_a_run(warehouse: str) -> None:
    code, out, err = run(warehouse, "--once")
    assert code == 0
    assert "db.t compaction done in" in out and "5 files (" in out and ") became 1 (" in out
    assert err == "maintaining 1 table\n"
    assert run(warehouse, "--once")[:2] == (0, "")


def test_runs_are_json_lines_or_csv_for_programs(warehouse: str) -> None:
    _, out, _ = run(warehouse, "--once", "--format", "jsonl")
    (one,) = map(json.loads, out.splitlines())
    assert (one["kind"], one["outcome"], one["snapshot"], one["files_before"]) == ("compaction", "done", 6, 5)
    table = lakelog.connect(warehouse=warehouse).table("db.t")
    for number in range(5):
        table.write(pa.table({"id": pa.array([number], pa.int32())}))
    _, out, _ = run(warehouse, "--once", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["table"], row["outcome"]) == ("db.t", "done")


def test_a_failed_run_is_reported_and_exits_with_1(warehouse: str, monkeypatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(FileStore, "run_compaction", failing)
    code, out, _ = run(warehouse, "--once")
    assert code == 1
    assert "compaction failed in" in out and "OSError: the disk is gone" in out


def test_a_missing_table_is_reported(warehouse: str) -> None:
    for how in ("--once", "--dry-run"):
        code, _, err = run(warehouse, "db.nothing", how)
        assert code == 1
        assert err.count("table db.nothing does not exist") == 1


@pytest.mark.parametrize("wrong", [["--interval", "30"], ["--run-time", "soon"], ["--max-bytes-per-hour", "much"]])
def test_numbers_without_a_unit_and_nonsense_are_refused(warehouse: str, wrong: list[str]) -> None:
    done = CliRunner().invoke(optimize, [*wrong, "--once", "--warehouse", warehouse])
    assert done.exit_code == 2
    assert wrong[0] in done.output


def test_only_one_place_to_run(warehouse: str) -> None:
    with pytest.raises(InvalidOption, match="--spark, --master and --remote"):
        run(warehouse, "--spark", "--remote", "sc://localhost")
