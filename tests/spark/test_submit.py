"""A job that is submitted to a standalone cluster and brings lakelog along as one zip file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from servers.spark_cluster import SparkCluster
from servers.spark_home import SPARK_HOME, conf_arguments, job_environment

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}


def test_a_submitted_job_fills_both_stores_with_the_package_that_it_brings(tmp_path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "py_files"
    packed = tmp_path / "lakelog.zip"
    subprocess.run([script, packed], env={**os.environ, "PYTHON": sys.executable}, check=True, capture_output=True)
    source = tmp_path / "in"
    source.mkdir()
    rows = (json.dumps({"id": i, "name": f"n{i}"}) for i in range(1000, 1500))
    (source / "1.json").write_text("\n".join(rows), encoding="utf-8")
    with SparkCluster(tmp_path / "cluster", workers=1, with_package=False) as cluster:
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, *conf_arguments(SETTINGS)]
        command += ["--py-files", str(packed), str(Path(__file__).with_name("submitted_job.py"))]
        command += [str(tmp_path / "warehouse"), str(source), str(tmp_path / "checkpoint")]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**job_environment(with_package=False), "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["master"] == cluster.url
    assert list(found["files"].values()) == found["log"] == [1500, sum(range(1500))]
    assert len(found["packages"]) >= 2 and all("lakelog.zip/" in bucket_key for bucket_key in found["packages"])


def test_a_local_session_s_workers_run_the_python_of_its_program(tmp_path: Path) -> None:
    """As of an environment that is not activated: the first python3 of the PATH is another one."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho another python >&2\nexit 3\n", encoding="utf-8")
    other.chmod(0o755)
    variables = {key: value for key, value in job_environment().items() if key != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("user_job.py")), str(tmp_path / "warehouse")],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**variables, "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-2:] == ["4950", "(100, 100) db"], "a new session knows the tables, too"
