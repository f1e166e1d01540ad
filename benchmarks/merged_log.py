"""What a log costs a table that merges: upserts into an aggregation table with a log beside the same without one.

usage: merged_log.py [--keys N] [--rows N] [--commits N] [--rounds N]

Both tables take the same batches, in turns, in one process without Spark; each batch is a commit. The log gets the
exact changes of the merged rows after each commit (``log.content`` = ``changes``), in its time. Measurements are
medians of the rounds: µs of CPU time a row, and rows a second of CPU and of the clock. The folded log is compared with
the files.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.logstore.clients import close_clients

NAMES: Mapping[str, str] = {"without a log": "", "with a log": ", 'log-store.enabled' = 'true'"}
"""Kind of table → its options."""


def make_batches(keys: int, rows: int, commits: int) -> list[pa.RecordBatch]:
    """Batches with random keys, so that most rows are merged with one of an earlier batch."""
    chance = np.random.default_rng(7)
    return [
        pa.record_batch(
            {"id": chance.integers(0, keys, rows), "n": chance.integers(0, 100, rows), "m": chance.random(rows)}
        )
        for _ in range(commits)
    ]


def measure(options: str, batches: Sequence[pa.RecordBatch]) -> tuple[float, float]:
    """Seconds of CPU and of the clock for the commits of one new table."""
    warehouse = tempfile.mkdtemp(prefix="lakelog-bench-")
    try:
        lake = connect(warehouse=warehouse)
        lake.sql(
            "create table db.t (id bigint, n bigint, m double, primary key (id)) using lakelog tblproperties ("
            "'bucket' = '2', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', "
            f"'fields.m.aggregate-function' = 'max'{options})"
        )
        table = lake.table("db.t")
        cpu, wall = time.process_time(), time.perf_counter()
        for batch in batches:
            with table.writer() as writer:
                writer.write(batch)
        taken = time.process_time() - cpu, time.perf_counter() - wall
        _check(table, batches)
        return taken
    finally:
        close_clients()
        shutil.rmtree(warehouse, ignore_errors=True)


def _check(table: Table, batches: Sequence[pa.RecordBatch]) -> None:
    """The files, and the log if there is one, have the sums of all batches."""
    whole = pa.Table.from_batches(batches)
    files = table.scan().to_arrow()
    assert files.column("n").to_numpy().sum() == whole.column("n").to_numpy().sum(), "the files have another sum"
    if table.logical.log is None:
        return
    state: dict[int, int] = {}
    for batch in table.tail("earliest", columns=["id", "n"], stop="latest"):
        for key, n, kind in zip(*(batch.column(c).to_pylist() for c in ("id", "n", "_row_kind")), strict=True):
            if kind in ("+I", "+U"):
                state[key] = n
            else:
                state.pop(key, None)
    assert state == dict(zip(files.column("id").to_pylist(), files.column("n").to_pylist(), strict=True))


def merged_log(keys: int, rows: int, commits: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Kind of table → its measurements."""
    batches = make_batches(keys, rows, commits)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    for number in range(rounds):
        for name in NAMES if number % 2 else reversed(list(NAMES)):
            taken[name].append(measure(NAMES[name], batches))
    total = rows * commits
    medians = {name: [statistics.median(t) for t in zip(*found, strict=True)] for name, found in taken.items()}
    return {
        name: {
            "µs CPU a row": round(cpu / total * 1e6, 2),
            "rows/s CPU": round(total / cpu),
            "rows/s": round(total / wall),
        }
        for name, (cpu, wall) in medians.items()
    }


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for name, found in merged_log(given.keys, given.rows, given.commits, given.rounds).items():
        print(f"{name}: {found}")


if __name__ == "__main__":
    main()
