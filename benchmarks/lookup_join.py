"""A stream joined with a table that changes: how old the answers are, whether they are right, what the workers take.

usage: lookup_join.py [--rows 1000000] [--updates 1000] [--probes 20000] [--seconds 60] [--log embedded] [--buckets 2]
                      [--mode sync,async]

A writer updates rows at random, each 100 ms a part of ``--updates`` a second, and notes when the log has acknowledged
them. A Spark stream looks up ``--probes`` random keys a second. *Staleness* of an answer is the time from the
acknowledgement of the first update that it does not show until its micro-batch is at the sink; 0 when it shows all.
A replay in plain Python holds every version of every key: each answer must be one of them, none from before what the
same key has shown in an earlier micro-batch, and once the writer has stopped all keys must have their last row.
Memory is the anonymous memory of the largest Python worker. Prints a table, and JSON as the last line of each mode.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from measure import log_options, percentiles
from normalize import PythonMemory

from lakelog import Lake, connect

CREATE = """create table bench.dim (id bigint, version bigint, name string, primary key (id)) using lakelog
tblproperties ('bucket' = '{buckets}', 'log-store.enabled' = 'true', {log} 'commit.interval' = '2 s')"""
_TICK_S = 0.1
_RECENT_MS = 1000.0
"""Keys that were updated so shortly before the answer show what all others hide."""


def rows_of(ids: np.ndarray, versions: np.ndarray) -> pa.Table:
    """The rows of keys at versions; the name tells both."""
    names = [f"customer-{i}-{v}" for i, v in zip(ids.tolist(), versions.tolist(), strict=True)]
    return pa.table({"id": pa.array(ids, pa.int64()), "version": pa.array(versions, pa.int64()), "name": names})


class Updates(threading.Thread):
    """Writes new versions until it is told to stop; ``began`` and ``acknowledged`` are ms by (key, version)."""

    def __init__(self, lake: Lake, rows: int, per_s: int) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self._lake, self._per_tick = lake, max(1, round(per_s * _TICK_S))
        self.versions = np.zeros(rows, dtype=np.int64)
        self.began: dict[tuple[int, int], float] = {}
        self.acknowledged: dict[tuple[int, int], float] = {}
        self.failure: BaseException | None = None
        self.seconds = 0.0

    def run(self) -> None:
        try:
            self._run()
        except BaseException as failure:
            self.failure = failure

    def _run(self) -> None:
        dice, started, ticks = np.random.default_rng(3), time.perf_counter(), 0
        with self._lake.table("bench.dim").writer() as writer:
            while not self.done.is_set():
                ids = np.unique(dice.integers(0, len(self.versions), self._per_tick))
                self.versions[ids] += 1
                keys = list(zip(ids.tolist(), self.versions[ids].tolist(), strict=True))
                self.began.update(dict.fromkeys(keys, time.time() * 1000))
                writer.write(rows_of(ids, self.versions[ids]))
                writer.flush()
                self.acknowledged.update(dict.fromkeys(keys, time.time() * 1000))
                ticks += 1
                if ticks % 20 == 0:
                    writer.commit()
                time.sleep(max(0.0, started + ticks * _TICK_S - time.perf_counter()))
        self.seconds = time.perf_counter() - started


class Answers:
    """What came to the sink, one entry a micro-batch: ms, keys, versions, and how many names were not theirs."""

    def __init__(self) -> None:
        self.batches: list[tuple[float, np.ndarray, np.ndarray]] = []
        self.wrong_names = 0
        self.missing = 0

    def take(self, frame: Any, _: int) -> None:
        """The sink."""
        rows = frame.toArrow()
        now = time.time() * 1000
        self.missing += rows.column("version").null_count
        ids, versions = (rows.column(name).fill_null(-1).to_numpy() for name in ("key", "version"))
        self.wrong_names += sum(
            name != f"customer-{i}-{v}"
            for i, v, name in zip(ids.tolist(), versions.tolist(), rows.column("name").to_pylist(), strict=True)
        )
        if rows.num_rows:
            self.batches.append((now, ids, versions))


def judged(answers: Answers, updates: Updates, warm_ms: float) -> dict[str, Any]:
    """Compares the answers with a replay of the updates."""
    shown: dict[int, int] = {}
    stale, recent = [], []
    future = back = probes = 0
    for now, ids, versions in answers.batches:
        probes += len(ids)
        seen: dict[int, int] = {}
        for key, version in zip(ids.tolist(), versions.tolist(), strict=True):
            back += version < shown.get(key, 0)
            seen[key] = max(version, seen.get(key, 0))
            future += version > 0 and updates.began.get((key, version), float("inf")) > now
            if now < warm_ms:
                continue
            next_at = updates.acknowledged.get((key, version + 1), float("inf"))
            stale.append(max(0.0, now - next_at))
            if stale[-1] or now - updates.acknowledged.get((key, version), float("-inf")) < _RECENT_MS:
                recent.append(stale[-1])
        shown.update(seen)
    return {
        "probes": probes,
        "staleness_ms": percentiles(np.array(stale)),
        "staleness_of_recent_ms": percentiles(np.array(recent)),
        "not_a_version": answers.wrong_names + future,
        "went_back": back,
        "found_nothing": answers.missing,
    }


def final_rows(lake: Lake, updates: Updates, options: dict[str, str]) -> int:
    """How many keys do not have their last row once all updates are there, of all that the table has."""
    rows = len(updates.versions)
    probes = lake.spark.range(rows).withColumnRenamed("id", "key")
    found = lake.lookup_join(probes, "bench.dim", {"key": "id"}, "left", options=options).toArrow()
    versions = np.full(rows, -1)
    versions[found.column("key").to_numpy()] = found.column("version").fill_null(-1).to_numpy()
    return int((versions != updates.versions).sum()) + abs(found.num_rows - rows)


def measure(log: str, mode: str, given: argparse.Namespace) -> dict[str, Any]:
    """The measurements of one mode."""
    place = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    with log_options(log) as properties, connect(warehouse=str(place / "warehouse")) as lake:
        lake.sql("create database bench")
        lake.sql(CREATE.format(buckets=given.buckets, log=properties))
        with lake.table("bench.dim").writer() as writer:
            for ids in np.array_split(np.arange(given.rows), max(1, given.rows // 100_000)):
                writer.write(rows_of(ids, np.zeros(len(ids), dtype=np.int64)))
        options = {"lookup.async": str(mode == "async").lower(), "lookup.name": "bench"}
        source = lake.spark.readStream.format("rate").option("rowsPerSecond", given.probes).load()
        keys = source.selectExpr(f"pmod(xxhash64(value), {given.rows}) as key")
        joined = lake.lookup_join(keys, "bench.dim", {"key": "id"}, "left", options=options)
        answers, updates, memory = Answers(), Updates(lake, given.rows, given.updates), PythonMemory()
        memory.start()
        query = joined.writeStream.foreachBatch(answers.take).option("checkpointLocation", str(place / "cp")).start()
        while not answers.batches:  # the indexes are made by the first micro-batch
            time.sleep(0.1)
            if query.exception() is not None:
                raise query.exception()
        updates.start()
        started = time.time()
        time.sleep(given.seconds / 2)
        half_mb, memory.peak_mb = memory.peak_mb, 0
        time.sleep(given.seconds / 2)
        updates.done.set()
        updates.join()
        query.stop()
        memory.done.set()
        if updates.failure is not None:
            raise updates.failure
        found = judged(answers, updates, started * 1000 + 2000)
        stats = lake.lookup_stats("bench.dim", "bench").to_pylist()[0]
        taken = [b for b in answers.batches if b[0] > started * 1000]
        span_s = (taken[-1][0] - taken[0][0]) / 1000 if len(taken) > 1 else 0.0
        return {
            "log": log,
            "mode": mode,
            "rows": given.rows,
            "updates_per_s": round(len(updates.acknowledged) / updates.seconds),
            "probes_per_s": round(sum(len(b[1]) for b in taken[1:]) / span_s) if span_s else 0,
            **found,
            "not_final": final_rows(lake, updates, options),
            "python_mb_first_half": half_mb,
            "python_mb_second_half": memory.peak_mb,
            "workers": stats["workers"],
            "age_p99_ms": stats["age_p99_ms"],
            "age_max_ms": stats["age_max_ms"],
            "block_hits": stats["block_hits"],
            "block_loads": stats["block_loads"],
            "cache_mb": stats["memory_bytes"] >> 20,
            "disk_mb": stats["index_bytes"] >> 20,
        }


def main() -> None:
    """Runs each mode; ends with 1 when an answer is not what the replay says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("rows", 1_000_000), ("updates", 1000), ("probes", 20_000), ("seconds", 60), ("buckets", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--log", default="embedded")
    parser.add_argument("--mode", default="sync,async")
    given = parser.parse_args()
    is_wrong = False
    for mode in given.mode.split(","):
        found = measure(given.log, mode, given)
        print("| metric | value |\n|---|---|")
        for name, value in found.items():
            print(f"| {name.replace('_', ' ')} | {value} |")
        print(json.dumps(found), flush=True)
        wrong = ["not_a_version", "found_nothing", "not_final"]
        # without a look at the log in each task one worker may be behind another
        wrong += ["went_back"] if mode == "sync" else []
        is_wrong |= any(found[name] for name in wrong)
    raise SystemExit(int(is_wrong))


if __name__ == "__main__":
    main()
