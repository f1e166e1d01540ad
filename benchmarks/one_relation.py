"""A statement with fifteen scalar subqueries over one table (query 9 of TPC-DS), beside plain Parquet.

usage: one_relation.py [--rows 2000000] [--rounds 3] [--json FILE]. The table has a primary key, and 10 % of its rows
are newer versions that a read must merge; ``compacted`` is the same after a compaction. ``each`` plans a relation for
each subquery. Answers are compared. CPU is that of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from process_tree import cpu_seconds

from lakelog import connect
from lakelog.spark.engine import engine

_BOUNDS = ((1, 20), (21, 40), (41, 60), (61, 80), (81, 100))


def query(table: str) -> str:
    """Query 9 over a table with its columns."""
    cases = [
        f"case when (select count(*) from {table} where quantity between {low} and {high}) > 1000 "
        f"then (select avg(discount) from {table} where quantity between {low} and {high}) "
        f"else (select avg(paid) from {table} where quantity between {low} and {high}) end bucket{at}"
        for at, (low, high) in enumerate(_BOUNDS, 1)
    ]
    return f"select {', '.join(cases)}"


def rows_of(count: int, first: int) -> pa.Table:
    """Rows with the keys from ``first`` on."""
    chance = np.random.default_rng(first + count)
    columns = {name: chance.integers(0, 10_000, count) / 100 for name in ("discount", "paid", "list", "tax")}
    return pa.table({"id": np.arange(first, first + count), "quantity": chance.integers(1, 101, count), **columns})


def measured(run: Callable[[], Any], rounds: int) -> tuple[Any, dict[str, float]]:
    """The answer, and the least CPU and time of some runs after a first one."""
    answer, cpu, wall = run(), [], []
    for _ in range(rounds):
        begin, clock = cpu_seconds(os.getpid()), time.perf_counter()
        assert run() == answer
        cpu.append(cpu_seconds(os.getpid()) - begin)
        wall.append(time.perf_counter() - clock)
    return answer, {"cpu_s": round(min(cpu), 2), "wall_s": round(min(wall), 2)}


def main() -> None:
    """Reads the command line, prints the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as directory, connect(f"{directory}/warehouse") as lake:
        columns = "id bigint, quantity bigint, discount double, paid double, list double, tax double"
        lake.sql("create database d")
        lake.sql(f"create table d.t ({columns}, primary key (id)) using lakelog tblproperties ('write-only' = 'true')")
        newer = rows_of(given.rows // 10, given.rows // 2)
        lake.write(rows_of(given.rows, 0), "d.t")
        lake.table("d.t").compact(full=True)
        lake.write(newer, "d.t")
        Path(f"{directory}/plain").mkdir()
        pq.write_table(lake.table("d.t").scan().to_arrow(), f"{directory}/plain/rows.parquet", compression="zstd")
        lake.spark.read.parquet(f"{directory}/plain").createOrReplaceTempView("plain")
        expected, out["plain"] = measured(lambda: lake.spark.sql(query("plain")).collect(), given.rounds)

        def both(name: str) -> None:
            for mode in ("each", "one"):
                with patch.object(engine, "folded", (lambda plan, _: plan) if mode == "each" else engine.folded):
                    answer, out[f"{name}, {mode}"] = measured(lambda: lake.sql(query("d.t")).collect(), given.rounds)
                pairs = zip(answer[0], expected[0], strict=True)
                assert all(abs(value - right) < 1e-9 for value, right in pairs)

        both("merged")
        lake.table("d.t").compact(full=True)
        both("compacted")
    json.dump(out, sys.stdout, indent=1)
    if given.json:
        Path(given.json).write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
