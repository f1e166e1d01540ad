"""Optimizers in processes of their own: killed in the middle, two at once beside a writer, stopped by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from debezium_consumer import folded
from lakelog.io.clock import monotonic_s, sleep
from lakelog.service.optimizer.optimizer import Optimizer
from lakelog.table.maintenance.compaction_task import leases_of
from lakelog.table.maintenance.run_history import DIED, DONE

pytestmark = pytest.mark.slow
_WRITE_S = 6.0


def table_of(lake: lakelog.Lake, name: str, more: str = "") -> lakelog.Table:
    lake.sql(
        f"create table {name} (id int, name string, primary key (id)) tblproperties ('bucket' = '2', "
        f"'write-only' = 'true', 'log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json'{more})"
    )
    return lake.table(name)


def write(table: lakelog.Table, ids: range, name: str) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "name": [name] * len(ids)}))


def rows(table: lakelog.Table) -> list[tuple[int, str]]:
    return sorted((r["id"], r["name"]) for r in table.scan().to_arrow().to_pylist())


def plain(table: lakelog.Table) -> list[tuple[int, str]]:
    """What a plain consumer of the log ends with."""
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    return sorted((row["id"], row["name"]) for row in folded(values, ["id"]).values())


def wait_for(condition: Callable[[], object], job: subprocess.Popen[str]) -> None:
    end = monotonic_s() + 120
    while not condition():
        assert job.poll() is None, job.communicate()
        assert monotonic_s() < end, "it did not happen"
        sleep(0.02)


def started(*command: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def daemon(warehouse: Path, *more: str) -> subprocess.Popen[str]:
    """One that has inspected the tables, and so listens to signals."""
    job = started("-m", "lakelog", "optimize", "--interval", "200 ms", "--format", "jsonl", *more, "--warehouse",
                  str(warehouse))  # fmt: skip
    assert job.stderr is not None
    assert job.stderr.readline().startswith("maintaining")
    return job


def test_another_optimizer_finishes_the_work_of_a_killed_one(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    table = table_of(lake, "db.t")
    for number in range(6):
        write(table, range(number, number + 20), f"v{number}")
    before = rows(table)
    job = started(str(Path(__file__).parent / "optimizer_job.py"), str(tmp_path / "warehouse"), str(tmp_path / "mark"))
    try:
        wait_for((tmp_path / "mark").exists, job)
        assert len(leases_of(table.logical).held()) == 1
        assert [run.outcome for run in table.runs()] == ["running"]
        assert any("is compacting it" in wait.why for wait in table.health().waits)
    finally:
        job.kill()
        job.communicate()
    (found,) = table.runs()
    assert (found.outcome, found.process) == (DIED, job.pid)
    (run,) = Optimizer(lake).once()
    assert (run.outcome, run.detail) == (DONE, "2 buckets compacted")
    assert rows(table) == before == plain(table)
    assert [one.outcome for one in table.runs()] == [DONE, DIED]
    left = table.remove_orphan_files(older_than="0 s")
    assert len(left.files) == 1, "what the killed one had written"
    assert rows(table) == before


def test_two_optimizers_during_writes_keep_tables_small_and_lose_nothing(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    kept = ", 'snapshot.num-retained.min' = '2', 'snapshot.num-retained.max' = '8'"
    tables = [table_of(lake, f"db.t{number}", kept) for number in range(3)]
    daemons = [daemon(tmp_path / "warehouse") for _ in range(2)]
    wanted: dict[int, str] = {}
    try:
        end, number = monotonic_s() + _WRITE_S, 0
        while monotonic_s() < end:
            for table in tables:
                write(table, range(number % 40, number % 40 + 10), f"v{number}")
            wanted |= dict.fromkeys(range(number % 40, number % 40 + 10), f"v{number}")
            number += 1
        for table in tables:
            wait_for(lambda table=table: not table.health().needs, daemons[0])
    finally:
        for one in daemons:
            one.send_signal(signal.SIGTERM)
        ended = [one.communicate(timeout=120) for one in daemons]
    assert [one.returncode for one in daemons] == [0, 0], ended
    runs = [json.loads(line) for out, _ in ended for line in out.splitlines()]
    assert {run["outcome"] for run in runs} <= {"done", "stopped", "nothing to do", "waits"}
    useless = sum(run["outcome"] in ("nothing to do", "waits") for run in runs)
    assert useless <= len(runs) / 2, "they get in each other's way"
    for table in tables:
        assert rows(table) == sorted(wanted.items()) == plain(table)
        stats = table.health().figures
        assert stats.most_runs < 5 and stats.snapshots.kept <= 8 + 50
        assert stats.log is not None and stats.log.lag == 0
        assert leases_of(table.logical).held() == {}
        assert {run.process for run in table.runs()} <= {one.pid for one in daemons}
        assert "running" not in {run.outcome for run in table.runs()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_a_safe_point_with_0(tmp_path: Path, number: signal.Signals) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path / "warehouse"))
    table = table_of(lake, "db.t")
    for step in range(6):
        write(table, range(20), f"v{step}")
    job = daemon(tmp_path / "warehouse")
    wait_for(table.runs, job)
    job.send_signal(number)
    out, err = job.communicate(timeout=120)
    assert job.returncode == 0, err
    assert "Traceback" not in err
    assert "running" not in {run.outcome for run in table.runs()}
    assert [json.loads(line)["table"] for line in out.splitlines()] == ["db.t"] * len(table.runs())
    assert rows(table) == [(n, "v5") for n in range(20)]
