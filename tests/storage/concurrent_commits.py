"""Eight processes commit to one bucketed table while another one compacts and another expires: what must be true."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from servers.warehouse import Warehouse

WRITERS, COMMITS = 8, 25
OPTIONS = "'bucket' = '4', 'write-only' = 'true', 'commit.max-retries' = '1000', 'commit.max-retry-wait' = '200 ms'"


@dataclass(frozen=True)
class Run:
    """What the processes said."""

    commits: list[dict[str, object]]
    seconds: float
    compactions: int
    expired: int


def run_processes(
    warehouse: Warehouse, commits: int = COMMITS, keepers: bool = True, writers: int = WRITERS, options: str = OPTIONS
) -> Run:
    """Makes the table and lets all processes work on it; ``keepers``: one compacts and one expires beside them."""
    lake = warehouse.connect()
    lake.sql("create database if not exists db")
    lake.sql(f"create table db.t (id int, v string, primary key (id)) using lakelog tblproperties ({options})")

    def start(role: str, number: int = 0) -> subprocess.Popen[str]:
        script = str(Path(__file__).with_name("commit_job.py"))
        command = [sys.executable, script, role, str(number), str(commits)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"warehouse": warehouse.uri, "options": dict(warehouse.options)}) + "\n")
        process.stdin.flush()
        return process

    others = [start("compactor"), start("expirer")] if keepers else []
    started = time.monotonic()
    writers = [start("writer", number) for number in range(writers)]
    lines = [line for process in writers for line in _output(process)]
    seconds = time.monotonic() - started
    said = [json.loads(line) for process in others for line in _output(process, "stop\n")]
    found = {key: value for each in said for key, value in each.items()}
    return Run([json.loads(line) for line in lines], seconds, found.get("compactions", 0), found.get("expired", 0))


def _output(process: subprocess.Popen[str], tell: str | None = None) -> list[str]:
    out, error = process.communicate(tell, timeout=900)
    assert process.returncode == 0, error[-3000:]
    return out.splitlines()


def check(warehouse: Warehouse, run: Run, count: int, keepers: bool = True) -> None:
    """All commits are there, their snapshots are consecutive, and of each key the last commit's row is read."""
    assert len(run.commits) == count
    ids = sorted(int(str(c["snapshot"])) for c in run.commits)
    assert len(set(ids)) == len(ids)
    table = warehouse.connect().table("db.t")
    latest = table.latest_snapshot()
    assert latest is not None
    if keepers:
        assert run.compactions
        assert run.expired
        assert latest.id == len(ids) + run.compactions
    else:
        assert ids == list(range(1, latest.id + 1))
    rows = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    last = max(run.commits, key=lambda c: int(str(c["snapshot"])))
    want = {c["id"]: c["value"] for c in run.commits} | dict.fromkeys(range(20), last["value"])
    assert rows == want
