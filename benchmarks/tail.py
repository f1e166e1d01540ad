"""Latency of ``tail()`` without Spark: from the moment an append is acknowledged until the tail has the decoded
rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa
from measure import CREATE, log_options, percentiles

from lakelog import connect

_WRITE = """
import sys, time
import pyarrow as pa
from lakelog import connect
warehouse, count = sys.argv[1], int(sys.argv[2])
table = connect(warehouse=warehouse).table("bench.t")
with table.writer() as writer:
    for number in range(count):
        due = time.perf_counter() + 0.01
        rows = pa.table({"id": pa.array([number] * 10, pa.int64()), "amount": [time.time_ns() / 1e6] * 10})
        writer.write(rows)
        writer.flush()
        print(number, time.time_ns() / 1e6, flush=True)
        time.sleep(max(0.0, due - time.perf_counter()))
"""


def writer_to_tail(log: str, appends: int = 1_500) -> dict[str, Any]:
    """One process appends 10 rows each 10 ms, another tails; ms from before the append, and from its
    acknowledgement."""
    with log_options(log) as options:
        warehouse = tempfile.mkdtemp()
        lake = connect(warehouse=warehouse)
        lake.sql("create database bench")
        one_bucket = "'bucket' = '1', 'bucket-key' = 'id'"
        lake.sql(CREATE.format(buckets=1, log=options, mode="all", key="").replace("'bucket' = '1'", one_bucket))
        changes = lake.table("bench.t").tail(columns=["id", "amount"])
        command = [sys.executable, "-c", _WRITE, warehouse, str(appends)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        seen: dict[int, tuple[float, float]] = {}
        while len(seen) < appends:
            batch: pa.RecordBatch = next(changes)
            now = time.time_ns() / 1e6
            for number, born in zip(batch["id"].to_pylist(), batch["amount"].to_pylist(), strict=True):
                seen.setdefault(number, (now, born))
        assert writer.stdout is not None
        acknowledged = {int(n): float(at) for n, at in (line.split() for line in writer.stdout)}
        writer.wait()
    used = range(100, appends)
    return {
        "from_write_ms": percentiles(np.array([seen[n][0] - seen[n][1] for n in used])),
        "from_acknowledged_ms": percentiles(np.array([seen[n][0] - acknowledged[n] for n in used])),
    }
