"""Writing from Spark: a base load and upsert batches, by each way in, beside a plain Parquet write of the same rows.

usage: spark_write.py [--rows 5000000] [--batch 200000] [--rounds 3] [--batches 4] [--ways sql,format] [--buckets 8]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import tree_rss_mb

from lakelog import Lake, connect

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CREATE = """create table bench.{name} (id bigint, grp int, amount double, name string, payload string, ts timestamp,
primary key (id)) using lakelog tblproperties ('bucket' = '{buckets}', 'num-sorted-run.compaction-trigger' = '1000')"""


@dataclass
class Step:
    """What one step cost in each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: float = 0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Times the block and watches the memory of the process tree."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.1):
                self.peak_mb = max(self.peak_mb, tree_rss_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        cpu, started = tree_cpu_s(), time.perf_counter()
        try:
            yield
            self.wall.append(time.perf_counter() - started)
            self.cpu.append(tree_cpu_s() - cpu)
        finally:
            done.set()
            watcher.join()


def tree_cpu_s() -> float:
    """Processor time, user and system, of this process and all that it has started."""
    pids, total = [os.getpid()], 0
    while pids:
        pid = pids.pop()
        with contextlib.suppress(OSError):
            total += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return total * _TICK_S


def rows_of(ids: np.ndarray, seed: int) -> pa.Table:
    """Rows of the workload for some ids."""
    random = np.random.default_rng(seed)
    count = len(ids)
    words = pa.array([f"{n:016x}" for n in random.integers(0, 1 << 62, 20_000)])
    picked = [words.take(pa.array(random.integers(0, 20_000, count))) for _ in range(4)]
    joined = pa.compute.binary_join_element_wise(*picked[1:], " ")
    return pa.table(
        {
            "id": ids,
            "grp": random.integers(0, 1000, count).astype(np.int32),
            "amount": random.random(count) * 1000,
            "name": pa.compute.binary_join_element_wise(pa.scalar("cust"), picked[0], "-"),
            "payload": joined,
            "ts": pa.array(1_700_000_000_000_000 + ids * 1000, pa.timestamp("us", "UTC")),
        }
    )


def make_inputs(root: Path, rows: int, batch: int, batches: int) -> None:
    """``base`` in two files, and ``batch-<n>``: 70 % existing keys, 25 % new, 5 % deletes."""
    random = np.random.default_rng(1)
    (root / "base").mkdir(parents=True)
    order = random.permutation(rows)
    for part, ids in enumerate(np.array_split(order, 2)):
        pq.write_table(rows_of(ids, part), root / "base" / f"{part}.parquet")
    for n in range(batches):
        old = random.choice(rows, batch * 3 // 4, replace=False)
        new = rows + n * batch // 4 + np.arange(batch // 4)
        kinds = np.full(batch, "+U", dtype=object)
        kinds[: batch // 20] = "-D"
        made = rows_of(np.concatenate([old, new]), 100 + n).append_column("_row_kind", pa.array(kinds))
        (root / f"batch-{n}").mkdir()
        pq.write_table(made.take(pa.array(random.permutation(made.num_rows))), root / f"batch-{n}" / "0.parquet")


def writes(lake: Lake, ways: list[str], buckets: int, out: Path) -> dict[str, Callable[[Any, str, str], None]]:
    """Way → (frame, view, name of the target): None."""

    def plain(frame: Any, view: str, name: str) -> None:
        frame.write.mode("append").parquet(str(out / name))

    def by_format(frame: Any, view: str, name: str) -> None:
        frame.write.format("lakelog").mode("append").save(f"bench.{name}")

    def by_sql(frame: Any, view: str, name: str) -> None:
        lake.sql(f"insert into bench.{name} select * from {view}")

    known = {"format": by_format, "sql": by_sql}
    return {"parquet": plain, **{way: known[way] for way in ways}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--buckets", type=int, default=8)
    parser.add_argument("--ways", default="sql,format")
    parser.add_argument("--inputs", help="directory of inputs, made when it is not there")
    parser.add_argument("--memory", default="3g")
    given = parser.parse_args()
    ways = given.ways.split(",")
    inputs = Path(given.inputs or tempfile.mkdtemp(prefix="lakelog-bench-")) / f"{given.rows}-{given.batch}"
    if not inputs.exists():
        make_inputs(inputs, given.rows, given.batch, given.batches)
    out = Path(tempfile.mkdtemp(prefix="lakelog-bench-"))
    steps: dict[tuple[str, str], Step] = {}
    with connect(warehouse=str(out / "warehouse"), settings={"spark.driver.memory": given.memory}) as lake:
        lake.sql("create database bench")
        known = writes(lake, ways, given.buckets, out)
        for step in ("base", *(f"batch-{n}" for n in range(given.batches))):
            lake.spark.read.parquet(str(inputs / step)).createOrReplaceTempView(step.replace("-", "_"))
        for round_ in range(given.rounds + 1):
            # the first round, with a few rows, is the warm-up
            for way, write in known.items():
                name = f"{way}_{round_}"
                if way != "parquet":
                    lake.sql(_CREATE.format(name=name, buckets=given.buckets))
                for n in range(-1, given.batches):
                    step = "base" if n < 0 else f"batch-{n}"
                    view = step.replace("-", "_")
                    if round_ == 0 and n < 0:
                        view = "batch_0"
                    cost = steps.setdefault(("base" if n < 0 else "batch", way), Step())
                    with cost.measured() if round_ else contextlib.nullcontext():
                        write(lake.spark.table(view), view, name)
                if way != "parquet" and round_:
                    files = lake.spark.sparkContext and lake.table(f"bench.{name}").scan().plan()
                    steps["base", way].__dict__["files"] = sum(len(s.files) for s in files)
            for way in ways:
                lake.sql(f"drop table bench.{way}_{round_} purge")
    figures = []
    for (step, way), cost in steps.items():
        plain = steps[step, "parquet"]
        wall, cpu = statistics.median(cost.wall), statistics.median(cost.cpu)
        figures.append(
            {
                "step": step,
                "way": way,
                "wall_s": round(wall, 3),
                "cpu_s": round(cpu, 2),
                "wall_ratio": round(wall / statistics.median(plain.wall), 2),
                "cpu_ratio": round(cpu / statistics.median(plain.cpu), 2),
                "peak_mb": cost.peak_mb,
                "files": cost.__dict__.get("files"),
            }
        )
    for figure in figures:
        print(json.dumps(figure))


if __name__ == "__main__":
    main()
