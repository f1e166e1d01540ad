"""DuckLake's streaming workload: 300,000 rows in batches of 10, each acknowledged, and with ``log-store.linger``.

usage: streamed_rows.py [--batches 30000] [--seconds 20] [--systems embedded,files,ducklake]

Without linger each batch is flushed, so it is durable before the next one. With linger, rows are durable within that
time. A run ends after ``--seconds``; all rows are then counted in the table. ``ducklake`` inserts the same batches into
DuckLake on SQLite, with and without inlined rows: its table has no primary key. DuckLake publishes 253 rows/s for
inserts into Parquet files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from environments import Environment

from lakelog import connect

_DUCKLAKE = Environment(
    (
        "duckdb==1.5.5",
        "duckdb-extension-ducklake==1.5.5",
        "duckdb-extension-sqlite-scanner==1.5.5",
        "duckdb-extensions==1.5.5",
        "pyarrow==26.0.1",
    )
)

_CREATE = """create table bench.t (id bigint, amount double, primary key (id)) using lakelog tblproperties
('log-store.enabled' = 'true', 'log-store.type' = '{log}', 'log-store.linger' = '{linger}')"""


def streamed(log: str, linger: str, batches: int, seconds: float) -> dict[str, object]:
    """Rows/s until all rows are committed, and CPU µs of a batch."""
    lake = connect(warehouse=tempfile.mkdtemp())
    lake.sql("create database bench")
    lake.sql(_CREATE.format(log=log, linger=linger))
    parts = [pa.table({"id": range(n * 10, n * 10 + 10), "amount": [0.5] * 10}) for n in range(batches)]
    begun, cpu, written = time.perf_counter(), time.process_time(), 0
    with lake.table("bench.t").writer() as writer:
        for part in parts:
            writer.write(part)
            if linger == "0 ms":
                writer.flush()
            written += 1
            if time.perf_counter() - begun > seconds:
                break
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    assert lake.table("bench.t").scan().to_arrow().num_rows == written * 10
    return {
        "rows": written * 10,
        "rows_per_s": round(written * 10 / wall),
        "cpu_us_a_batch": round(cpu / written * 1e6),
    }


def ducklake(inlined: int, batches: int, seconds: float) -> dict[str, Any]:
    """The same of DuckLake, which keeps batches of at most ``inlined`` rows in its catalog."""
    script = str(Path(__file__).with_name("ducklake_rows.py"))
    command = [_DUCKLAKE.python(), script, str(batches), str(seconds), str(inlined)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--systems", default="embedded,files,ducklake")
    given = parser.parse_args()
    for system in given.systems.split(","):
        if system == "ducklake":
            for inlined in (0, 10):
                figures = ducklake(inlined, given.batches, given.seconds)
                print(json.dumps({"system": f"DuckLake, {inlined} rows inlined", **figures}), flush=True)
            continue
        for time_to_wait in ("0 ms", "5 ms"):
            figures = streamed(system, time_to_wait, given.batches, given.seconds)
            print(json.dumps({"system": f"lakelog, log {system}", "linger": time_to_wait, **figures}), flush=True)
