"""A job of many parts on clusters whose machines share an object store or HDFS, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.cluster_job import CHANGES, ROWS
from hosts.programs import found_by

pytestmark = pytest.mark.timeout(2400)


@pytest.mark.parametrize(
    ("cluster", "storage", "log"),
    [
        ("standalone", "s3", "kafka"),
        ("standalone", "hdfs", "files"),
        ("yarn-client", "s3", "files"),
        ("yarn-cluster", "hdfs", "kafka"),
        ("yarn-cluster", "s3", "kafka"),
    ],
)
def test_a_job_writes_both_stores_joins_and_compacts_from_other_hosts(
    tmp_path: Path, cluster: str, storage: str, log: str
) -> None:
    found = found_by(tmp_path, "jobs", "--cluster", cluster, "--storage", storage, "--log", log)
    assert found["hosts"] == {"driver": "workers" if cluster == "yarn-cluster" else "driver", "tasks": ["workers"]}
    left = ROWS - 100
    assert found["batch"]["rows"] == [left, sum(range(left)), ROWS // 4]
    assert found["batch"]["is_log"]
    assert (found["batch"]["buckets"], found["batch"]["leases"]) == (4, 0)
    assert found["stream"] == {"is_input": True, "is_log": True, "log": CHANGES}
    assert found["lookup"] == {
        "rows": 2_000,
        "first old": 500,
        "first none": 500,
        "later old": 250,
        "later new": 500,
        "later none": 250,
    }
