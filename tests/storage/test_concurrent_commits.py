"""Processes commit to one table while others compact and expire it (``benchmarks/commits.py``: for longer)."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from concurrent_commits import WRITERS, check, run_processes

from servers.warehouse import Warehouse

_S3, _HDFS = pytest.mark.s3, pytest.mark.hdfs


@pytest.mark.slow
@pytest.mark.parametrize("keepers", [False, True])
def test_on_a_local_disk_all_commits_exist_and_the_last_one_wins(tmp_path, keepers: bool) -> None:
    place = Warehouse(str(tmp_path / "warehouse"))
    check(place, run_processes(place, 8, keepers), WRITERS * 8, keepers)


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
def test_on_a_server_no_writer_gives_up_all_commits_exist_and_the_last_one_wins(place: Warehouse) -> None:
    commits = 3 if place.uri.startswith("hdfs") else 10  # closing a file on HDFS takes half a second
    run = run_processes(place, commits, False, 4, "'bucket' = '1', 'write-only' = 'true'")
    check(place, run, 4 * commits, False)
