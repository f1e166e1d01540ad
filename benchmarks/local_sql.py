"""TPC-H by lake.sql without Spark beside DuckDB's own time on the same Parquet files: answers, seconds, memory, start.

usage: local_sql.py [--scale 1] [--rounds 3] [--results docs/results]

Both sides have two threads and the same limit of memory. An answer is right if it equals DuckDB's, with numbers to six
digits, because DuckDB divides decimals as doubles. The time is the shortest of the rounds; both sides take turns. Needs
tpchgen-cli, which carries TPC's generator, and `lakelog[sql]`.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from results import busy_cores, write_results
from tpch import KEYS, _plain, generate, queries

import lakelog
from lakelog import Lake

_START = """
import sys, time
start = time.perf_counter()
import lakelog
lake = lakelog.connect(sys.argv[1])
lake.sql("select n_name from tpch.nation where n_nationkey = 7").to_arrow()
print(time.perf_counter() - start)
"""
_PEAK = """
import sys
import lakelog
lake = lakelog.connect(sys.argv[1])
lake.sql("use tpch")
for text in sys.stdin.read().split(";"):
    lake.sql(text).to_arrow()
with open("/proc/self/status") as status:  # the peak of getrusage may be that of the process that started this one
    print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024)
"""


def fill(lake: Lake, directory: Path) -> None:
    """Writes the tables without keys, whose files need no merge."""
    for name in KEYS:
        lake.write(_plain(pq.read_table(directory / f"{name}.parquet")), f"tpch.{name}", create=True)


def plain(warehouse: Path) -> Any:
    """DuckDB over the data files of the same tables."""
    db = duckdb.connect(config={"threads": os.cpu_count() or 1, "memory_limit": "640MB"})
    for name in KEYS:
        files = [str(path) for path in (warehouse / "tpch.db" / name).rglob("*.parquet")]
        db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files})")
    return db


def is_equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers have the same rows in the same order."""
    pairs = [(a.to_pylist(), b.to_pylist()) for a, b in zip(one.columns, other.columns, strict=True)]
    return all(len(a) == len(b) and all(map(_same, a, b)) for a, b in pairs)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float | Decimal) and isinstance(other, float | Decimal | int):
        return math.isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-6)
    return bool(one == other)


def measure(lake: Lake, db: Any, rounds: int) -> dict[str, dict[str, Any]]:
    """Each query on both sides, in turns."""
    lake.sql("use tpch")
    found: dict[str, dict[str, Any]] = {}
    for name, text in queries().items():
        seconds = {"lakelog": math.inf, "duckdb": math.inf}
        answers: dict[str, pa.Table] = {}
        for _ in range(rounds):
            for side, run in (("lakelog", lake.sql), ("duckdb", db.sql)):
                start = time.perf_counter()
                answers[side] = _rows(run(text))
                seconds[side] = min(seconds[side], time.perf_counter() - start)
        found[name] = {
            "right": is_equal(answers["lakelog"], answers["duckdb"]),
            "lakelog_s": round(seconds["lakelog"], 3),
            "duckdb_s": round(seconds["duckdb"], 3),
            "ratio": round(seconds["lakelog"] / seconds["duckdb"], 2),
        }
        print(name, found[name], flush=True)
    return found


def _rows(result: Any) -> pa.Table:
    rows: pa.Table = result.to_arrow_table() if hasattr(type(result), "to_arrow_table") else result.to_arrow()
    return rows


def _of_process(script: str, warehouse: Path, given: str = "") -> float:
    command = [sys.executable, "-c", script, str(warehouse)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(arguments)
    os.environ["JAVA_HOME"] = "/nowhere"  # as on a machine without Java
    busy = busy_cores()
    with tempfile.TemporaryDirectory(prefix="lakelog-sql-") as directory:
        source, warehouse = Path(directory) / "generated", Path(directory) / "warehouse"
        generate(given.scale, source)
        with lakelog.connect(warehouse) as lake:
            fill(lake, source)
            found = measure(lake, plain(warehouse), given.rounds)
        totals = {side: sum(one[f"{side}_s"] for one in found.values()) for side in ("lakelog", "duckdb")}
        summary = {
            "right": sum(one["right"] for one in found.values()),
            "queries": len(found),
            "lakelog_s": round(totals["lakelog"], 2),
            "duckdb_s": round(totals["duckdb"], 2),
            "ratio": round(totals["lakelog"] / totals["duckdb"], 2),
            "first_answer_s": round(min(_of_process(_START, warehouse) for _ in range(given.rounds)), 2),
            "peak_mb": _of_process(_PEAK, warehouse, ";".join(queries().values())),
        }
    print(summary)
    figures = {f"all, scale {given.scale:g}": summary, **found}
    if given.results is not None:
        write_results(given.results, {"sql without spark": figures}, busy)
    sys.exit(0 if summary["right"] == summary["queries"] else 1)


if __name__ == "__main__":
    main()
