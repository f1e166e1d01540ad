"""Whole changes from an upsert log (``log.consumer.normalize``): rows a second, memory and size of the state.

usage: normalize.py [--keys 2000000] [--log embedded,kafka] [--formats arrow,debezium-json] [--batch 1000000] [--plain]

The log gets each key once, and then again in random order with new values. A Spark stream reads it in two runs, inserts
and updates, into no sink; ``--plain`` reads the upserts as they are. Memory is that of the Python processes of the tree
(anonymous pages) at its peak.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measure import log_options
from process_tree import cpu_seconds, tree_of

from lakelog import Lake, connect


class PythonMemory(threading.Thread):
    """The largest anonymous memory of a Python process below this one, MiB, sampled every 50 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.peak_mb = 0

    def run(self) -> None:
        while not self.done.wait(0.05):
            for pid in tree_of(os.getpid())[1:]:
                try:
                    command = Path(f"/proc/{pid}/comm").read_text()
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                except OSError:
                    continue
                if command.startswith("python"):
                    size = next((int(v.split()[1]) for v in lines if v.startswith("RssAnon")), 0)
                    self.peak_mb = max(self.peak_mb, size // 1024)


def write(lake: Lake, name: str, ids: np.ndarray, seed: int) -> None:
    """Upserts of about 60 bytes, straight into the log."""
    with lake.table(name).writer(options={"emit.mode": "log"}) as writer:
        for part in np.array_split(ids, max(1, len(ids) // 100_000)):
            amounts = (part * 31 + seed) % 1_000_003 / 7
            frame = pl.DataFrame({"id": part, "grp": (part % 1000).astype(np.int32), "amount": amounts})
            writer.write(frame.with_columns(name=pl.lit(f"customer-{seed}-") + pl.col("id").cast(pl.String)))


def read(lake: Lake, name: str, place: Path, batch: int, whole: bool) -> dict[str, Any]:
    """One run up to the end of the log."""
    options = {"read.mode": "log", "scan.startup.mode": "earliest", "read.max-rows-per-trigger": str(batch)}
    options |= {"log.consumer.normalize": "true"} if whole else {}
    rows = lake.spark.readStream.format("lakelog").options(**options).load(name)
    stream = rows.writeStream.format("noop").option("checkpointLocation", str(place / f"cp-{name}-{whole}"))
    memory = PythonMemory()
    memory.start()
    cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    taken = time.perf_counter() - started
    memory.done.set()
    told = sum(p["numInputRows"] for p in query.recentProgress)
    return {"s": taken, "cpu_s": cpu_seconds(os.getpid()) - cpu, "told": told, "python_mb": memory.peak_mb}


def rates(keys: int, batch: int, form: str, options: str, whole: bool) -> dict[str, Any]:
    """The measurements of one format of the log."""
    place = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    lake = connect(warehouse=str(place / "warehouse"))
    lake.sql("create database if not exists bench")
    name = f"bench.t_{form.replace('-', '_')}"
    lake.sql(
        f"create table {name} (id bigint, grp int, amount double, name string, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '2', 'log-store.enabled' = 'true', {options} 'log-store.data-format' = '{form}')"
    )
    out: dict[str, Any] = {}
    dice = np.random.default_rng(7)
    for step, seed in (("inserts", 1), ("updates", 2)):
        write(lake, name, dice.permutation(keys), seed)
        found = read(lake, name, place, batch, whole)
        out[step] = {
            "rows_per_s": round(keys / found["s"]),
            "rows_per_cpu_s": round(keys / found["cpu_s"]),
            "told": found["told"],
            "python_mb": found["python_mb"],
        }
    state = place / "warehouse" / "bench.db" / name.partition(".")[2] / "lakelog" / "normalize"
    sizes = [p.stat().st_size for p in state.rglob("*.arrow")]
    out["state_mb"], out["state_files"] = sum(sizes) >> 20, len(sizes)
    lake.close()
    return out


def main() -> None:
    """Runs all formats and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--log", default="embedded")
    parser.add_argument("--formats", default="arrow,debezium-json")
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    for log in given.log.split(","):
        with log_options(log) as options:
            for form in given.formats.split(","):
                found = rates(given.keys, given.batch, form, options, not given.plain)
                print(json.dumps({"log": log, "format": form, "whole": not given.plain, **found}), flush=True)


if __name__ == "__main__":
    main()
