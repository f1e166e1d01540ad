"""Commits a second of eight processes on one bucketed table, beside a compactor and an expirer, on each storage.

usage: commits.py [--storage local,s3,hdfs] [--commits 25] [--json FILE]. What must be true is checked at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "storage")]

from concurrent_commits import WRITERS, check, run_processes  # noqa: E402

from servers.warehouse import Warehouse  # noqa: E402


@contextmanager
def warehouse_on(storage: str, directory: Path) -> Iterator[Warehouse]:
    """A warehouse on a storage, with its server."""
    if storage == "s3":
        from servers.s3_server import S3Server

        with S3Server(directory) as server:
            yield Warehouse(f"s3://{server.new_bucket()}/warehouse", server.options)
    elif storage == "hdfs":
        from servers.hdfs_cluster import HdfsCluster

        with HdfsCluster(directory) as cluster:
            yield Warehouse(f"{cluster.uri}/commits/warehouse")
    else:
        yield Warehouse(str(directory / "warehouse"))


def commits_on(storage: str, commits: int, keepers: bool) -> dict[str, float]:
    """Runs the processes, checks the table, gives the measurements."""
    with tempfile.TemporaryDirectory() as directory, warehouse_on(storage, Path(directory)) as place:
        run = run_processes(place, commits, keepers)
        check(place, run, WRITERS * commits, keepers)
    total = WRITERS * commits
    return {
        "commits": total,
        "seconds": round(run.seconds, 1),
        "commits/s": round(total / run.seconds, 2),
        "compactions": run.compactions,
        "expired": run.expired,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", default="local,s3,hdfs")
    parser.add_argument("--commits", type=int, default=25)
    parser.add_argument("--json")
    given = parser.parse_args()
    measurements = {}
    for storage in given.storage.split(","):
        for keepers in (False, True):
            name = f"{storage}{' with compactor and expirer' if keepers else ''}"
            measurements[name] = commits_on(storage, given.commits, keepers)
            print(f"{name:36} {measurements[name]}", flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(measurements, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
