"""A log in files on an S3 server that answers late: latency of ``tail()``, and requests of a micro-batch.

usage: distant_log.py [--delays 20,60] [--appends 200] [--every 200] [--results DIR]

One process appends 10 rows each ``--every`` ms, and this one tails them; each reaches the server through a proxy of its
own, which delays each request and counts it. ``from_write_ms`` counts from before the append until the tail has the
rows, ``acknowledged_ms`` until the writer knows that they are in the log. Requests are those of one append, of the
writer and of the reader; the reader asks for the next segment meanwhile. At the end it is idle for some seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from commits import warehouse_on
from delaying_proxy import DelayingProxy
from measure import percentiles
from results import busy_cores, write_results

from lakelog import connect

_WRITE = """
import json, sys, time
import pyarrow as pa
from lakelog import connect
warehouse, options, count, every = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
table = connect(warehouse=warehouse, storage_options=options).table("db.t")
with table.writer() as writer:
    for number in range(count):
        due = time.perf_counter() + every
        born = time.time_ns() / 1e6
        writer.write(pa.table({"id": pa.array([number] * 10, pa.int64()), "born": [born] * 10}))
        writer.flush()
        print(number, time.time_ns() / 1e6 - born, flush=True)
        time.sleep(max(0.0, due - time.perf_counter()))
"""
_WARM_UP = 20
_IDLE_S = 20.0


def distant_log(delay_ms: float, appends: int, every_ms: float) -> dict[str, Any]:
    """The measurements with one delay."""
    with tempfile.TemporaryDirectory() as directory, warehouse_on("s3", Path(directory)) as place:
        endpoint = place.options["s3.endpoint"]
        with DelayingProxy(endpoint, delay_ms) as writing, DelayingProxy(endpoint, delay_ms) as reading:
            options = {**place.options, "s3.endpoint": reading.endpoint}
            with connect(warehouse=place.uri, storage_options=options) as lake:
                lake.sql("create database db")
                lake.sql(
                    "create table db.t (id bigint, born double) using lakelog tblproperties "
                    "('log-store.enabled' = 'true', 'log-store.type' = 'files', 'log-store.partitions' = '1')"
                )
                changes = lake.table("db.t").tail()
                given = json.dumps({**place.options, "s3.endpoint": writing.endpoint})
                command = [sys.executable, "-c", _WRITE, place.uri, given, str(appends), str(every_ms / 1000)]
                writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                seen: dict[int, float] = {}
                before = reading.counts.copy(), writing.counts.copy()
                while len(seen) < appends:
                    batch = next(changes)
                    now = time.time_ns() / 1e6
                    if len(seen) < _WARM_UP:
                        before = reading.counts.copy(), writing.counts.copy()
                    for number, born in zip(batch["id"].to_pylist(), batch["born"].to_pylist(), strict=True):
                        seen.setdefault(number, now - born)
                made = [(found - old) for found, old in zip((reading.counts, writing.counts), before, strict=True)]
                assert writer.stdout is not None
                acknowledged = {int(n): float(ms) for n, ms in (line.split() for line in writer.stdout)}
                writer.wait()
                idle = threading.Event()
                threading.Timer(_IDLE_S, idle.set).start()
                counts = reading.counts.total()
                for _ in lake.table("db.t").tail(changes.position, stop=idle):
                    pass
                idle_requests = (reading.counts.total() - counts) / _IDLE_S
    used = range(_WARM_UP, appends)
    return {
        "from_write_ms": percentiles(np.array([seen[n] for n in used])),
        "acknowledged_ms": percentiles(np.array([acknowledged[n] for n in used])),
        "reader_requests": {name: round(count / len(used), 2) for name, count in sorted(made[0].items())},
        "writer_requests": {name: round(count / len(used), 2) for name, count in sorted(made[1].items())},
        "idle_requests_per_s": round(idle_requests, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delays", default="20,60", help="milliseconds of each request")
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--every", type=float, default=200, help="milliseconds between two appends")
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    busy = busy_cores()
    found = {f"{d} ms": distant_log(float(d), given.appends, given.every) for d in given.delays.split(",")}
    print(json.dumps(found, indent=1))
    if given.results is not None:
        write_results(given.results, {"distant log": found}, busy)


if __name__ == "__main__":
    main()
