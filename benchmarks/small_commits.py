"""What commits of 1,000 rows cost without Spark while a table grows: time, CPU, requests to the storage, and disk.

usage: small_commits.py [--commits 300] [--results DIR]

70 % of the rows of a commit are updates. The options are the default ones, so compaction and expiry run, too. The
requests are those of the local storage, each named as an object store would bill it, with what Amazon S3 asks for
1,000 of them in its cheapest region: PUT and LIST 0.005 $, GET and HEAD 0.0004 $, DELETE nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from results import busy_cores, write_results

from lakelog import connect
from lakelog.io.storage.local import LocalFileIO

_ROWS = 1000
_UPDATED = 0.7
_MARKS = (10, 50, 100, 200, 300)
_WINDOW = 10
"""Commits up to a mark whose median, or mean number of requests, is its measurement."""
_BILLED = {
    "write": "PUT", "write_hint": "PUT", "create": "PUT", "open_output": "PUT", "list": "LIST",
    "read": "GET", "open_input": "GET", "exists": "HEAD", "size": "HEAD", "delete": "DELETE",
}  # fmt: skip
_DOLLARS = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7, "DELETE": 0.0}


def small_commits(commits: int) -> dict[str, Any]:
    """Measurements by the number of commits so far."""
    requests: Counter[str] = Counter()
    with _counting(requests):
        return _measurements(commits, requests)


def _measurements(commits: int, requests: Counter[str]) -> dict[str, Any]:
    warehouse = tempfile.mkdtemp(prefix="lakelog-bench-")
    lake = connect(warehouse)
    lake.sql("create database db")
    lake.sql("create table db.t (id bigint, v double, name string, primary key (id)) using lakelog")
    chance = random.Random(22)
    taken: list[tuple[float, float]] = []
    asked: list[Counter[str]] = []
    out: dict[str, Any] = {}
    keys = 0
    for number in range(1, commits + 1):
        updated = round(_ROWS * _UPDATED) if keys else 0
        ids = [*(chance.randrange(keys) for _ in range(updated)), *range(keys, keys + _ROWS - updated)]
        keys += _ROWS - updated
        rows = pa.table({"id": ids, "v": [i * 0.25 for i in ids], "name": [f"customer-{i}" for i in ids]})
        requests.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        lake.write(rows, "db.t")
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
        asked.append(Counter(requests))
        if number in _MARKS or number == commits:
            last = taken[-_WINDOW:]
            total = sum(asked[-_WINDOW:], Counter())
            table = lake.table("db.t")
            began = time.perf_counter()
            (found,) = table.scan(filter="id = 0").to_arrow()["id"].to_pylist()
            point_s = time.perf_counter() - began
            assert found == 0
            files = [file for file in Path(warehouse).rglob("*") if file.is_file()]
            out[f"{number} commits"] = {
                "commit_ms": round(statistics.median(w for w, _ in last) * 1e3, 1),
                "commit_cpu_ms": round(statistics.median(c for _, c in last) * 1e3, 1),
                "point_read_ms": round(point_s * 1e3, 1),
                "keys": keys,
                "files": len(files),
                "mb": round(sum(file.stat().st_size for file in files) / 1e6, 2),
                "s3_dollars_per_1000_commits": round(
                    sum(_DOLLARS[kind] * n for kind, n in total.items()) / len(last) * 1000, 3
                ),
                "requests_per_commit": {kind: round(n / len(last), 1) for kind, n in sorted(total.items())},
            }
    assert lake.table("db.t").scan(columns=["id"]).count() == keys
    shutil.rmtree(warehouse)
    return out


@contextlib.contextmanager
def _counting(requests: Counter[str]) -> Iterator[None]:
    """Counts the calls of the local storage in this process; files that are written together are a call each."""

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            requests[_BILLED[name]] += 1
            return work(*given, **more)

        return call

    def write_all(self: LocalFileIO, files: Mapping[str, bytes]) -> None:
        requests["PUT"] += len(files)
        together(self, files)

    together = LocalFileIO.write_all
    with contextlib.ExitStack() as patches:
        for name in _BILLED:
            patches.enter_context(patch.object(LocalFileIO, name, counted(name, getattr(LocalFileIO, name))))
        patches.enter_context(patch.object(LocalFileIO, "write_all", write_all))
        yield


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--results", help="directory of result files")
    given = parser.parse_args()
    busy = busy_cores()
    measurements = small_commits(given.commits)
    for name, found in measurements.items():
        print(f"{name}: {found}")
    if given.results:
        write_results(Path(given.results), {"small commits": measurements}, busy)


if __name__ == "__main__":
    main()
