"""Streaming upserts for minutes, compacted in the writer or not at all: do files and read cost level off, and what does
a compaction cost the log's latency?

usage: soak.py [--minutes 10] [--rate 20000] [--keys 2000000] [--buckets 4] [--option KEY=VALUE …] [--json FILE]

One process writes (Spark, the embedded log), another tails the log, this one looks at the files every few seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from measure import percentiles

from lakelog import connect
from lakelog.errors import NotFound
from lakelog.table.compaction_task import runs_of

WARM_UP_S = 30.0
LOOK_S = 5.0
NAMES = 100_000
VARIANTS = {"compacting": "false", "write-only": "true"}


def make_upserts(rows: int, keys: int, path: str) -> None:
    """An Arrow file of upserts of random keys."""
    chance = np.random.default_rng(7)
    names = pa.array([f"customer-{number:08d}" for number in range(NAMES)])
    schema = pa.schema([("id", pa.int64()), ("grp", pa.int32()), ("amount", pa.float64()), ("name", pa.string())])
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, schema) as file:
        for first in range(0, rows, 65_536):
            ids = chance.integers(0, keys, min(65_536, rows - first))
            columns = [ids, (ids % 1000).astype(np.int32), chance.random(len(ids)), names.take(pa.array(ids % NAMES))]
            file.write_batch(pa.record_batch([pa.array(column) for column in columns], schema=schema))


def write(warehouse: str, path: str, rate: int, start_ms: int) -> None:
    """The writer's process: one streaming query, until it is told to end."""
    from lakelog import LOW_LATENCY
    from lakelog.spark.replay_source import ReplaySource

    with connect(warehouse=warehouse, settings=LOW_LATENCY) as lake:
        lake.spark.dataSource.register(ReplaySource)
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=path, rate=rate, paced_rows=10**12, burst=1_000_000, start_ms=start_ms
        )
        query = lake.write_stream(source.load(), "bench.t")
        told = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: told.set())
        while not told.is_set() and not query.awaitTermination(1):
            pass
        if query.exception() is not None:
            raise query.exception()


def tail(warehouse: str) -> None:
    """The reader's process: prints, for each batch of the log, when it was seen and the latencies of its rows."""
    for batch in connect(warehouse=warehouse).table("bench.t").tail(columns=["sent_at"]):
        now = time.time_ns() / 1e6
        late = now - pc.cast(batch.column(0), pa.int64()).to_numpy() / 1000
        print(json.dumps([round(now), *np.percentile(late, [0, 25, 50, 75, 100]).round(1).tolist()]), flush=True)


def look(table: Any) -> dict[str, float]:
    """What a reader has to do now, and how long it takes to read one column without Spark."""
    store = table._table.store
    snapshot = store.latest_snapshot()
    levels: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    size = 0
    for entry in store.live_entries(snapshot):
        levels[entry.partition, entry.bucket].append(entry.file.level)
        size += entry.file.file_size
    started, used = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in table.scan(["amount"]).to_batches())
    return {
        "snapshot": 0 if snapshot is None else snapshot.id,
        "files": sum(len(held) for held in levels.values()),
        "runs": max((runs_of(held) for held in levels.values()), default=0),
        "mib": round(size / 2**20, 1),
        "rows": rows,
        "read_s": round(time.perf_counter() - started, 3),
        "read_cpu_s": round(time.process_time() - used, 3),
    }


def soak(given: argparse.Namespace, path: str, write_only: str) -> dict[str, Any]:
    """One variant: samples of the files, and percentiles of the log's latency after the warm-up."""
    warehouse = tempfile.mkdtemp(prefix="lakelog-soak-")
    lake = connect(warehouse=warehouse)
    lake.sql("create database bench")
    options = {
        "bucket": str(given.buckets),
        "log-store.enabled": "true",
        "log.changelog-mode": "upsert",
        "commit.interval": "5 s",
        "snapshot.time-retained": "1 min",
        "write-only": write_only,
        **dict(pair.split("=", 1) for pair in given.option),
    }
    text = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    lake.sql(
        f"create table bench.t (id bigint, grp int, amount double, name string, sent_at timestamp, primary key (id)) "
        f"using lakelog tblproperties ({text})"
    )
    table = lake.table("bench.t")
    start_ms = time.time_ns() // 1_000_000 + 8_000
    arguments = [warehouse, path, str(given.rate), str(start_ms)]
    seen = Path(warehouse) / "latency.jsonl"
    with seen.open("w") as output:
        reader = subprocess.Popen([sys.executable, __file__, "--role", "tail", *arguments], stdout=output)
        writer = subprocess.Popen([sys.executable, __file__, "--role", "write", *arguments])
        samples: list[dict[str, float]] = []
        end = start_ms / 1000 + given.minutes * 60
        while time.time() < end and writer.poll() is None:
            time.sleep(LOOK_S)
            try:
                samples.append({"at_s": round(time.time() - start_ms / 1000, 1), **look(table)})
            except NotFound:  # expiry was faster than this slow reader
                continue
            print(json.dumps(samples[-1]), flush=True)
        writer.send_signal(signal.SIGTERM)
        if writer.wait(120) != 0 and time.time() < end:
            raise SystemExit("the writer has failed")
        reader.terminate()
        reader.wait()
    lines = [json.loads(line) for line in seen.read_text().splitlines() if line.endswith("]")]
    steady = [line for line in lines if line[0] > start_ms + WARM_UP_S * 1000]
    # five points of each batch stand for its rows
    late = np.array([value for line in steady for value in line[1:]])
    return {"latency_ms": percentiles(late), "first_third": _middle(samples[: len(samples) // 3]),
            "last_third": _middle(samples[-len(samples) // 3 :]), "samples": samples}  # fmt: skip


def _middle(samples: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.median([s[key] for s in samples])) for key in (samples[0] if samples else ())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--only", choices=list(VARIANTS))
    parser.add_argument("--json")
    parser.add_argument("--role", choices=["write", "tail"])
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    if given.role == "write":
        warehouse, path, rate, start_ms = given.arguments
        write(warehouse, path, int(rate), int(start_ms))
        return
    if given.role == "tail":
        tail(given.arguments[0])
        return
    path = os.path.join(tempfile.mkdtemp(prefix="lakelog-soak-"), "rows.arrow")
    make_upserts(round(given.rate * (given.minutes * 60 + 60)), given.keys, path)
    found: dict[str, Any] = {}
    for name, write_only in VARIANTS.items():
        if given.only in (None, name):
            found[name] = soak(given, path, write_only)
            print(name, json.dumps({k: v for k, v in found[name].items() if k != "samples"}), flush=True)
    if len(found) == len(VARIANTS):
        ratio = found["compacting"]["latency_ms"]["p99"] / found["write-only"]["latency_ms"]["p99"]
        found["p99_ratio"] = round(ratio, 2)
        print(f"p99 of the log's latency with compaction / without: {ratio:.2f}")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
