"""The optimizer with a session: compactions run on its executors, all else here."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.service.optimizer.optimizer import Optimizer
from lakelog.spark.engine.compaction import SparkExecutor
from lakelog.table.maintenance.compaction_task import leases_of
from lakelog.table.maintenance.run_history import DONE, STOPPED
from servers.spark_connect import SparkConnectServer
from servers.spark_home import job_environment


def make(lake):
    lake.sql(
        "create table db.t (id int, name string, primary key (id)) tblproperties ('bucket' = '8', "
        "'write-only' = 'true', 'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '2', "
        "'snapshot.expire.limit' = '2')"
    )
    table = lake.table("db.t")
    for number in range(5):
        table.write(pa.table({"id": pa.array(range(100), pa.int32()), "name": [f"n{number}"] * 100}))
    return table


def rows(table) -> list[tuple[int, str]]:
    found = table.scan().to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def test_a_stop_leaves_the_packs_that_have_not_begun(lake, monkeypatch) -> None:
    table, run = make(lake), SparkExecutor.run

    def stopping(executor, given, tasks):
        outcomes = run(executor, given, tasks)
        optimizer.stop()
        return outcomes

    monkeypatch.setattr(SparkExecutor, "run", stopping)
    executor = lake.executor(start=True)
    optimizer = Optimizer(lake, executor=SparkExecutor(executor.spark, 2))
    (one,) = optimizer.once()
    assert one.outcome == STOPPED
    assert "left for the next run" in one.detail
    assert one.snapshot is not None
    assert leases_of(table.logical).held() == {}
    assert rows(table) == [(number, "n4") for number in range(100)]


@pytest.mark.local_only("it starts servers of its own")
@pytest.mark.parametrize("kind", ["master", "remote"])
def test_the_command_compacts_on_a_cluster_and_on_a_connect_server(tmp_path: Path, kind: str) -> None:
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        table = make(lake)
    with SparkConnectServer(tmp_path / "spark", {}) if kind == "remote" else nullcontext() as server:
        url = "local-cluster[1,1,1024]" if server is None else server.url
        command = [sys.executable, "-m", "lakelog", "optimize", "--once", "--format", "jsonl", f"--{kind}", url]
        command += ["--warehouse", str(tmp_path / "warehouse"), "--only", "compaction"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=job_environment())
    assert done.returncode == 0, done.stderr[-4000:]
    (run,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert (run["kind"], run["outcome"], run["files_before"], run["files_after"]) == ("compaction", DONE, 40, 8)
    assert rows(table) == [(number, "n4") for number in range(100)]
