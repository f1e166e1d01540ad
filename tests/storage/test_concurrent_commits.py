"""Eight processes commit to one table while others compact and expire it (``benchmarks/commits.py``: for longer)."""

from __future__ import annotations

import pytest
from concurrent_commits import check, run_processes

from servers.warehouse import Warehouse

COMMITS = {"s3": 5, "hdfs": 2}


@pytest.mark.slow
@pytest.mark.parametrize("keepers", [False, True])
def test_on_a_local_disk_all_commits_exist_and_the_last_one_wins(tmp_path, keepers: bool) -> None:
    place = Warehouse(str(tmp_path / "warehouse"))
    check(place, run_processes(place, 8, keepers), 8, keepers)


def test_on_a_server_all_commits_exist_and_the_last_one_wins(warehouse: Warehouse) -> None:
    commits = COMMITS[warehouse.uri.partition(":")[0]]
    check(warehouse, run_processes(warehouse, commits, False), commits, False)
