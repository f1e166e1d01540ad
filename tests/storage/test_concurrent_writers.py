"""Writers of one table that always overtake each other: none of them gives up."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

from servers.warehouse import Warehouse

WRITERS, COMMITS = 4, 10
_S3, _HDFS = pytest.mark.s3, pytest.mark.hdfs


@pytest.fixture(
    params=[
        pytest.param("s3", marks=_S3),
        pytest.param("s3 file", marks=_S3),
        pytest.param("s3 sql", marks=_S3),
        pytest.param("hdfs", marks=_HDFS),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    """A store that creates a file if it is absent, or one that has a lock for that."""
    if request.param == "hdfs":
        return Warehouse(f"{request.getfixturevalue('hdfs_cluster').uri}/{uuid.uuid4().hex}/warehouse")
    server = request.getfixturevalue("s3_server")
    lock = request.param.partition(" ")[2]
    address = {"file": str(tmp_path / "locks"), "sql": f"sqlite:///{tmp_path}/locks.db"}.get(lock)
    given = {"storage.lock": lock, "storage.lock.address": address} if address else {}
    return Warehouse(f"s3://{server.new_bucket()}/warehouse", {**server.options, **given})


@pytest.mark.timeout(900)
def test_four_processes_of_ten_commits_each_all_succeed(place: Warehouse) -> None:
    lake = place.connect()
    lake.sql("create database db; create table db.t (id bigint, name string) using lakelog")
    given = json.dumps({"warehouse": place.uri, "options": dict(place.options)})
    command = [sys.executable, str(Path(__file__).with_name("race_job.py"))]
    pipe = subprocess.PIPE
    jobs = [
        subprocess.Popen([*command, str(number), str(COMMITS)], stdin=pipe, stderr=pipe, text=True)
        for number in range(WRITERS)
    ]
    for job in jobs:
        assert job.stdin is not None
        job.stdin.write(given)
        job.stdin.close()
        job.stdin = None
    errors = [job.communicate(timeout=880)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * WRITERS, [error[-1000:] for error in errors]
    found = Counter(lake.table("db.t").scan(columns=["id"]).to_arrow().column("id").to_pylist())
    assert found == {n * 1000 + c: 1 for n in range(WRITERS) for c in range(COMMITS)} | {-1: WRITERS * COMMITS}
