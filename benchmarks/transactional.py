"""Latency of ``tail()`` with ``log.consistency`` = eventual and transactional, of 1,000 rows a second in micro-batches.

usage: transactional.py [--log embedded,kafka] [--seconds S] [--interval '1 s']

One process writes as a streaming query does: an epoch each 100 ms, rows to the log as they come, a snapshot each
``commit.interval``, control records behind it. Another one follows the log. ms from the making of a row to its sight.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
from measure import log_options, percentiles

from lakelog import connect

_WRITE = """
import sys, time
import pyarrow as pa
from lakelog import connect
from lakelog.table.commit.committer import Committer, register_writer
from lakelog.table.commit.seal_thread import Sealer
from lakelog.table.staging.task_writer import TaskWriter
table = connect(warehouse=sys.argv[1]).table("bench.t").logical
register_writer(table, "stream")
committer = Committer(table, "stream")
sealer = Sealer(committer)
start = time.perf_counter()
for epoch in range(int(sys.argv[2])):
    task = TaskWriter(table, "stream", epoch, 0)
    for part in range(10):
        number = epoch * 10 + part
        time.sleep(max(0.0, start + number * 0.01 - time.perf_counter()))
        born = [time.time_ns() / 1e6] * 10
        task.write(pa.record_batch({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64()), "born": born}))
        task.flush_log()
    committer.commit(epoch, [task.finish()])
    sealer.notify()
time.sleep(1)
sealer.seal_now()
"""


def latency(log: str, consistency: str, interval: str, seconds: int) -> dict[str, Any]:
    """Percentiles of one run, without its first two seconds."""
    with log_options(log) as options:
        warehouse = tempfile.mkdtemp()
        lake = connect(warehouse=warehouse)
        lake.sql("create database bench")
        lake.sql(
            "create table bench.t (id bigint, born double, primary key (id)) using lakelog tblproperties ("
            f"'bucket' = '4', {options}'commit.interval' = '{interval}', 'log-store.enabled' = 'true')"
        )
        changes = lake.table("bench.t").tail(options={"log.consistency": consistency})
        writer = subprocess.Popen([sys.executable, "-c", _WRITE, warehouse, str(seconds * 10)])
        found: dict[int, float] = {}
        while len(found) < seconds * 1_000:
            batch = next(changes)
            now = time.time_ns() / 1e6
            ids, born = batch["id"].to_pylist(), batch["born"].to_pylist()
            found.update((number, now - at) for number, at in zip(ids, born, strict=True))
        writer.wait()
    return percentiles(np.array([ms for number, ms in found.items() if number >= 2_000]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", default="embedded,kafka")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--interval", default="1 s")
    given = parser.parse_args()
    for log in given.log.split(","):
        for consistency in ("eventual", "transactional"):
            measurements = latency(log, consistency, given.interval, given.seconds)
            print(
                json.dumps({"log": log, "consistency": consistency, "interval": given.interval, **measurements}),
                flush=True,
            )


if __name__ == "__main__":
    main()
