"""A job of many parts on clusters whose machines share an object store or HDFS, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

from depth import Depth
from hosts.cluster_job import CHANGES, PARTS, ROWS
from hosts.programs import found_by

pytestmark = pytest.mark.timeout(2400)
_LEFT: Final = ROWS - 100
EXPECTED: Final[dict[str, Any]] = {
    "batch": {"rows": [_LEFT, sum(range(_LEFT)), ROWS // 4], "is_log": True, "buckets": 4, "leases": 0},
    "stream": {"is_input": True, "is_log": True, "log": CHANGES},
    "lookup": {
        "rows": 2_000,
        "first old": 500,
        "first none": 500,
        "later old": 250,
        "later new": 500,
        "later none": 250,
    },
}


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
    tmp_path: Path, cluster: str, storage: str, log: str, depth: Depth
) -> None:
    is_here = cluster != "yarn-cluster"
    parts = [part for part in PARTS if part != "hosts" and (part != "refused" or is_here)]
    parts = parts if depth.is_whole else random.Random(depth.seed).sample(parts, 2)
    what = ["--cluster", cluster, "--storage", storage, "--log", log, "--parts", ",".join(["hosts", *parts])]
    found = found_by(tmp_path, "jobs", *what)
    assert set(found) >= {"hosts", *parts}, found["said"]
    assert found["hosts"] == {"driver": "driver" if is_here else "workers", "tasks": ["workers"]}
    assert {part: found[part] for part in parts if part != "refused"} == {
        part: EXPECTED[part] for part in parts if part != "refused"
    }
    if "refused" in parts:
        check_refused(found)


def check_refused(found: dict[str, Any]) -> None:
    """What other machines do not have is refused, by name, before anything is written."""
    refused = found["refused"]
    assert "on another machine than this one, workers, use a warehouse that all machines reach" in refused["directory"]
    assert "embedded" in refused["embedded"]
    assert "'log-store.type'" in refused["embedded"]
    assert (refused["rows of directory"], refused["rows of embedded"]) == (0, 0)
    assert not found["left on workers"]
