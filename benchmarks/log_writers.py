"""Writers of one table with a log in files, each a process: commits a second, lost creates, and fairness.

usage: log_writers.py [--storage local,s3] [--seconds 15] [--rows 10] [--results DIR]

Each writer commits a few rows again and again. 16 writers append to a table without a key, and 4 writers change the
keys of one table. A *lost create* is a segment, a link or a snapshot that another writer has created first, so that the
writer has to try the next number. *fairness* is Jain's index of the writers' commits: 1 if all made as many, 1/n if one
made all of them. *cpu_ms_per_commit* is the CPU time of all writers, which a busy machine does not change. Each writer
makes one more commit before. At the end, the table must have the rows of all commits.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from commits import warehouse_on
from results import busy_cores, write_results

from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.object_store import ObjectStoreFileIO

from servers.warehouse import Warehouse  # isort: skip

_KINDS = {"segments": "/segments/", "links": "/chain/", "snapshots": "/snapshot/snapshot-"}
_CASES = {
    "16 writers, no key": (16, ""),
    "1 writer, no key": (1, ""),
    "4 writers, a key": (4, ", primary key (id)"),
    "1 writer, a key": (1, ", primary key (id)"),
}


def log_writers(storage: str, seconds: float, rows: int) -> dict[str, Any]:
    """Case → its measurements."""
    return {name: _case(storage, writers, key, seconds, rows) for name, (writers, key) in _CASES.items()}


def _case(storage: str, writers: int, key: str, seconds: float, rows: int) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory, warehouse_on(storage, Path(directory)) as place:
        lake = place.connect()
        lake.sql("create database db")
        lake.sql(
            f"create table db.t (id bigint, writer int, number bigint{key}) using lakelog tblproperties ("
            "'log-store.enabled' = 'true', 'log-store.type' = 'files', 'write-only' = 'true')"
        )
        begin, ready, answers = spawn.Event(), spawn.Queue(), spawn.Queue()
        jobs = [
            spawn.Process(target=_write, args=(place, number, rows, seconds, begin, ready, answers))
            for number in range(writers)
        ]
        for job in jobs:
            job.start()
        for _ in jobs:
            ready.get(timeout=120)
        begin.set()
        found = [answers.get(timeout=seconds * 4 + 120) for _ in jobs]
        for job in jobs:
            job.join()
        lake.table("db.t").seal()
        held = Counter(lake.table("db.t").scan(columns=["writer"]).to_arrow()["writer"].to_pylist())
        lake.close()
    commits = [one[0] for one in found]
    if not key:
        assert sum(held.values()) == (sum(commits) + writers) * rows, "a commit is missing or doubled"
    created, lost = (sum((one[at] for one in found), Counter()) for at in (1, 2))
    return {
        "commits_per_s": round(sum(commits) / seconds, 1),
        "least_and_most_of_a_writer": [min(commits), max(commits)],
        "fairness": round(sum(commits) ** 2 / (len(commits) * sum(n * n for n in commits)), 3),
        "cpu_ms_per_commit": round(1000 * sum(one[3] for one in found) / max(1, sum(commits)), 1),
        "lost_creates_per_commit": {kind: round(lost[kind] / max(1, sum(commits)), 2) for kind in _KINDS},
        "created_per_commit": {kind: round(created[kind] / max(1, sum(commits)), 2) for kind in _KINDS},
    }


def _write(
    place: Warehouse, number: int, rows: int, seconds: float, begin: Event, ready: Queue[int], answers: Queue[Any]
) -> None:
    """One writer: commits until the time is over, and answers its commits, creates, lost creates and CPU seconds."""
    created, lost = Counter[str](), Counter[str]()
    classes = (LocalFileIO, ObjectStoreFileIO)
    patches = [patch.object(one, "create", _counted(one.create, created, lost)) for one in classes]
    for one in patches:
        one.start()
    lake, commits = place.connect(), 0

    def commit() -> None:
        ids = range(rows) if commits % 2 else range(rows, 2 * rows)
        batch = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "writer": pa.array([number] * rows, pa.int32()),
                "number": pa.array([commits] * rows, pa.int64()),
            }
        )
        writer.write(batch)
        writer.commit()

    with lake.table("db.t").writer() as writer:
        commit()
        ready.put(number)
        begin.wait()
        created.clear()
        lost.clear()
        end, cpu = time.perf_counter() + seconds, time.process_time()
        while time.perf_counter() < end:
            commit()
            commits += 1
        cpu = time.process_time() - cpu
    answers.put((commits, created, lost, cpu))


def _counted(work: Callable[..., bool], created: Counter[str], lost: Counter[str]) -> Callable[..., bool]:
    def create(self: Any, path: str, data: bytes) -> bool:
        done = work(self, path, data)
        for kind, part in _KINDS.items():
            if part in path:
                (created if done else lost)[kind] += 1
        return done

    return create


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storage", default="local")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rows", type=int, default=10, help="of a commit")
    parser.add_argument("--results", help="directory of result files")
    given = parser.parse_args()
    busy, measurements = busy_cores(), {}
    for storage in given.storage.split(","):
        measurements[f"log writers {storage}"] = log_writers(storage, given.seconds, given.rows)
        for name, found in measurements[f"log writers {storage}"].items():
            print(f"{storage}, {name}: {found}", flush=True)
    if given.results:
        write_results(Path(given.results), measurements, busy)


if __name__ == "__main__":
    main()
