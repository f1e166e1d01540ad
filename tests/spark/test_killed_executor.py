"""kill -9 of an executor in the middle of a batch write: the rows are exact, and no file of the dead attempt stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers.spark_home import job_environment

ROWS = 40_000


def run(directory: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).with_name("killed_job.py")), str(directory), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=job_environment())
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(("log", "way"), [("true", "lake"), ("false", "format")])
def test_a_task_that_is_tried_again_leaves_nothing_of_its_first_try(tmp_path, log, way) -> None:
    found = run(tmp_path, "once", log, way)
    assert found["failed"] == ""
    assert found["rows"] == [ROWS, ROWS, sum(range(ROWS))]
    assert found["log"] == (None if log == "false" else [ROWS, sum(range(ROWS)), 1])
    assert found["named"] > 2, "files that were written in the middle"
    assert (found["unnamed"], found["orphans"]) == ([], 0)


def test_a_job_of_which_all_tries_die_changes_nothing_and_leaves_no_file(tmp_path) -> None:
    found = run(tmp_path, "always", "true", "lake")
    assert (
        "ExecutorLostFailure" in found["failed"] or "Lost executor" in found["failed"] or "aborted" in found["failed"]
    )
    assert found["rows"] == [0, 0, None]
    assert found["log"] == [0, 0, 0]
    assert (found["unnamed"], found["orphans"], found["left"]) == ([], 0, [])
