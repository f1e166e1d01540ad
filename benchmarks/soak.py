"""Streaming upserts for minutes, compacted in the writer or not at all: do files and read cost level off, and what does
a compaction cost the log's latency?

usage: soak.py [--minutes 10] [--rate 20000] [--keys 2000000] [--buckets 4] [--engine spark|python]
               [--option KEY=VALUE …] [--json FILE]

One process writes (by Spark or without, into the embedded log), another tails the log, a third one of low priority
looks at the files every few seconds. The latency is that of every row, in whole milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
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
from lakelog.io.names import new_uuid
from lakelog.table.commit.committer import Committer, register_writer
from lakelog.table.commit.seal_thread import sealer_for
from lakelog.table.maintenance.compaction_task import runs_of
from lakelog.table.staging.task_writer import TaskWriter

WARM_UP_S = 30.0
LOOK_S = 10.0
LOOK_NICENESS = 15
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


def write_with_spark(warehouse: str, path: str, rate: int, told: threading.Event) -> None:
    """The writer's process: one streaming query, until it is told to end."""
    from lakelog import LOW_LATENCY
    from lakelog.spark.session.replay_source import ReplaySource

    with connect(warehouse=warehouse, settings=LOW_LATENCY) as lake:
        lake.spark.dataSource.register(ReplaySource)
        start_ms = begin()
        source = lake.spark.readStream.format("lakelog-replay").options(
            path=path, rate=rate, paced_rows=10**12, burst=1_000_000, start_ms=start_ms
        )
        query = lake.write_stream(source.load(), "bench.t")
        while not told.is_set() and not query.awaitTermination(1):
            pass
        if query.exception() is not None:
            raise query.exception()


def write_without_spark(warehouse: str, path: str, rate: int, told: threading.Event) -> None:
    """The same without Spark: a micro-batch of the rows that are due each 100 ms, sealed and compacted beside it."""
    table = connect(warehouse=warehouse).table("bench.t").logical
    with pa.memory_map(path) as source:
        rows = pa.ipc.open_file(source).read_all()
    writer, epoch, first = new_uuid(), 0, 0
    register_writer(table, writer)
    committer = Committer(table, writer)
    sealer = sealer_for(committer, lambda _: None)
    start_ms = begin()
    while not told.wait(0.1):
        last = max(first, int((time.time_ns() / 1e6 - start_ms) * rate / 1000))
        due = pa.array(start_ms * 1000 + np.arange(first, last) * 1_000_000 // rate, pa.timestamp("us", "UTC"))
        task = TaskWriter(table, writer, epoch, 0)
        for batch in rows.slice(first, last - first).append_column("sent_at", due).combine_chunks().to_batches():
            task.write(batch)
        committer.commit(epoch, [task.finish()])
        sealer.notify()
        epoch, first = epoch + 1, last


def begin() -> int:
    """Says that the first row is due in a second from now; returns when, in ms since 1970."""
    start_ms = time.time_ns() // 1_000_000 + 1_000
    print(start_ms, flush=True)
    return start_ms


WRITERS = {"spark": write_with_spark, "python": write_without_spark}


def tail(warehouse: str) -> None:
    """The reader's process: for each batch of the log when it was seen, the latencies of its rows and how many each."""
    for batch in connect(warehouse=warehouse).table("bench.t").tail(columns=["sent_at"]):
        now = time.time_ns() / 1e6
        late = now - pc.cast(batch.column(0), pa.int64()).to_numpy() / 1000
        values, counts = np.unique(late.round().astype(np.int64), return_counts=True)
        print(json.dumps([round(now), values.tolist(), counts.tolist()]), flush=True)


def watch(warehouse: str, start_ms: int) -> None:
    """The looking process: a sample of the files now and then, until it is ended."""
    os.nice(LOOK_NICENESS)
    table = connect(warehouse=warehouse).table("bench.t")
    while True:
        time.sleep(LOOK_S)
        with contextlib.suppress(NotFound):  # expiry was faster than this slow reader
            sample = {"at_s": round(time.time() - start_ms / 1000, 1), **look(table)}
            print(json.dumps(sample), flush=True)


def look(table: Any) -> dict[str, float]:
    """What a reader has to do now, and how long it takes to read one column without Spark."""
    store = table.logical.store
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
    seen, looks = Path(warehouse) / "latency.jsonl", Path(warehouse) / "looks.jsonl"
    me = [sys.executable, __file__, "--role"]
    with seen.open("w") as latencies, looks.open("w") as samples_file:
        writer = subprocess.Popen(
            [*me, given.engine, "--rate", str(given.rate), warehouse, path], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        start_ms = int(writer.stdout.readline())
        others = [
            subprocess.Popen([*me, "tail", warehouse], stdout=latencies),
            subprocess.Popen([*me, "watch", warehouse, str(start_ms)], stdout=samples_file),
        ]
        end = start_ms / 1000 + given.minutes * 60
        with contextlib.suppress(subprocess.TimeoutExpired):
            writer.wait(max(end - time.time(), 0))
            raise SystemExit("the writer has failed")
        writer.send_signal(signal.SIGTERM)
        writer.wait(120)
        for other in others:
            other.terminate()
            other.wait()
    samples = [json.loads(line) for line in looks.read_text().splitlines() if line.endswith("}")]
    for sample in samples:
        print(json.dumps(sample), flush=True)
    lines = [json.loads(line) for line in seen.read_text().splitlines() if line.endswith("]]")]
    steady = [line for line in lines if line[0] > start_ms + WARM_UP_S * 1000]
    # every row of the batches
    late = np.concatenate([np.repeat(values, counts) for _, values, counts in steady])
    shutil.rmtree(warehouse)
    return {
        "latency_ms": percentiles(late),
        "rows_seen": len(late),
        "first_third": _middle(samples[: len(samples) // 3]),
        "last_third": _middle(samples[-len(samples) // 3 :]),
        "samples": samples,
    }


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
    parser.add_argument("--engine", choices=list(WRITERS), default="spark")
    parser.add_argument("--role", choices=[*WRITERS, "tail", "watch"], help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role in WRITERS:
        told = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: told.set())
        WRITERS[given.role](*given.arguments, given.rate, told)
        return
    if given.role == "tail":
        tail(given.arguments[0])
        return
    if given.role == "watch":
        watch(given.arguments[0], int(given.arguments[1]))
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
