"""Executors in processes of their own, which are killed, in one session; and a job that brings its package along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakelog import connect
from servers.spark_home import SPARK_HOME, conf_arguments, job_environment

pytestmark = pytest.mark.timeout(700)
HERE = Path(__file__).parent
ROWS = 40_000
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def output_of(command: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """The JSON that a job prints last."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=variables)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job has found."""
    command = [sys.executable, str(HERE / "cluster_job.py"), str(tmp_path_factory.mktemp("cluster"))]
    return output_of(command, job_environment())


def test_a_submitted_job_uses_the_package_that_it_brings_and_reads_without_an_import(tmp_path: Path) -> None:
    packed, warehouse = tmp_path / "lakelog.zip", str(tmp_path / "warehouse")
    script = HERE.parents[1] / "scripts" / "py_files"
    subprocess.run([script, packed], env={**os.environ, "PYTHON": sys.executable}, check=True, capture_output=True)
    with connect(warehouse) as lake:
        options = {"log-store.enabled": "true", "bucket": "2"}
        lake.create_table("db.t", {"id": "bigint", "name": "string"}, primary_key="id", options=options)
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local-cluster[1,2,1024]"]
    command += [*conf_arguments(SETTINGS), "--py-files", str(packed), str(HERE / "submitted_job.py"), warehouse]
    found = output_of(command, {**job_environment(with_package=False), "PYSPARK_DRIVER_PYTHON": sys.executable})
    assert found["first"] == {"rows": [], "imported": False}
    assert list(found["files"].values()) == [1000, sum(range(1000))] and found["log"] == list(range(1000))
    assert len(found["packages"]) >= 2 and all("lakelog.zip/" in place for place in found["packages"])


def test_executors_in_processes_of_their_own_write_read_and_compact_both_stores(job: dict[str, Any]) -> None:
    assert job["executors"] == 2
    assert job["streamed"]["files"] == [3000, sum(range(3000))]
    assert job["streamed"]["log"] == 3000
    # the first attempt of each task has died, and only files that nobody names tell of it
    compacted = job["streamed"]["compacted"]
    assert (compacted["buckets"], compacted["files"], compacted["again"], compacted["leases"]) == (4, 4, 0, 0)
    assert compacted["orphans"] >= 4


def test_rows_of_tasks_that_spark_tries_again_are_taken_back(job: dict[str, Any]) -> None:
    found = job["retried"]
    assert found["files"] == found["net"] == found["committed"] == list(range(60))
    assert found["records"] > 60 and found["attempts"] > 4, "every first try has left rows in the log"


@pytest.mark.parametrize("way", ["once", "format"])
def test_a_task_whose_executor_is_killed_leaves_nothing_of_its_first_try(job: dict[str, Any], way: str) -> None:
    found = job[way]
    assert found["failed"] == ""
    assert found["rows"] == [ROWS, ROWS, sum(range(ROWS))]
    assert found["log"] == (None if way == "format" else [ROWS, sum(range(ROWS)), 1])
    assert found["named"] > 2, "files that were written in the middle"
    assert (found["unnamed"], found["orphans"]) == ([], 0)


def test_a_job_of_which_all_tries_die_changes_nothing_and_leaves_no_file(job: dict[str, Any]) -> None:
    found = job["always"]
    assert found["failed"]
    assert found["rows"] == [0, 0, None]
    assert found["log"] == [0, 0, 0]
    assert (found["unnamed"], found["orphans"], found["left"]) == ([], 0, [])
