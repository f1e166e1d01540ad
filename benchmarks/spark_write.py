"""Writing from Spark, way by way, beside a plain Parquet write of the same rows: base load and batches of workload W.

usage: spark_write.py [--scale 1] [--rounds 3] [--batches 3] [--ways insert,insert-none,format]
       [--inputs DIR] [--results DIR]

All ways take turns in one warm session. ``insert`` is lake.sql with ``write.shuffle`` = auto, ``insert-none`` with
none, ``format`` the plain data source; ``json`` and ``arrow`` are ``insert`` into a table with an embedded log,
``files`` into one whose log is in its own storage.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process_tree import MemorySampler, cpu_seconds
from results import busy_cores, write_results
from systems.base import COLUMNS
from workload_input import Shape, make_input

from lakelog import Lake, connect

_CREATE = """create table bench.{name} (id bigint, grp int, amount double, name string, payload string, ts timestamp,
primary key (id)) using lakelog tblproperties ('bucket' = '8', 'write-only' = 'true'{more})"""
_LOG = ", 'log-store.enabled' = 'true', 'log-store.data-format' = '{}'"
_WITH_LOG = {
    "json": _LOG.format("debezium-json"),
    "arrow": _LOG.format("arrow"),
    "files": _LOG.format("arrow") + ", 'log-store.type' = 'files'",
}
Write = Callable[[Any, str, str], None]
"""(frame, name of its view, name of the table) → None."""


@dataclass
class Cost:
    """What one step cost, each time."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: float = 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measures a block."""
        sampler = MemorySampler(os.getpid())
        sampler.start()
        cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
        yield
        self.wall.append(time.perf_counter() - started)
        self.cpu.append(cpu_seconds(os.getpid()) - cpu)
        sampler.stop()
        self.peak_mb = max(self.peak_mb, sampler.peak_mb())

    def measurements(self, plain: Cost) -> dict[str, float]:
        """Medians, and their ratios to those of plain Parquet."""
        wall, cpu = statistics.median(self.wall), statistics.median(self.cpu)
        return {
            "wall_s": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "wall_ratio": round(wall / statistics.median(plain.wall), 2),
            "cpu_ratio": round(cpu / statistics.median(plain.cpu), 2),
            "peak_mb": self.peak_mb,
        }


def ways(lake: Lake, place: Path, chosen: list[str]) -> dict[str, Write]:
    """The ways to write, the plain one first."""
    names = ", ".join(COLUMNS)

    def plain(frame: Any, view: str, name: str) -> None:
        frame.select(*COLUMNS).write.mode("append").parquet(str(place / name))

    def inserting(hint: str) -> Write:
        def insert(frame: Any, view: str, name: str) -> None:
            kind = ", case when deleted then '-D' else '+I' end as _row_kind" if "deleted" in frame.columns else ""
            lake.sql(f"insert into bench.{name} {hint} select {names}{kind} from {view}")

        return insert

    def by_format(frame: Any, view: str, name: str) -> None:
        kind = ["case when deleted then '-D' else '+I' end as _row_kind"] if "deleted" in frame.columns else []
        frame.selectExpr(*COLUMNS, *kind).write.format("lakelog").mode("append").save(f"bench.{name}")

    known = {
        "insert": inserting(""),
        "insert-none": inserting("/*+ OPTIONS('write.shuffle'='none') */"),
        "format": by_format,
        **dict.fromkeys(_WITH_LOG, inserting("")),
    }
    return {"parquet": plain, **{way: known[way] for way in chosen}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--ways", default="insert,insert-none,format")
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--inputs", default=str(Path(tempfile.gettempdir()) / "lakelog-workload"))
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    busy = busy_cores()
    files = make_input(Shape.at_scale(given.scale), Path(given.inputs))
    inputs = {"base": files / "base", **{f"batch_{n}": files / f"batch-{n:02d}.parquet" for n in range(given.batches)}}
    costs: dict[tuple[str, str], Cost] = {}
    with (
        tempfile.TemporaryDirectory() as place,
        connect(warehouse=f"{place}/warehouse", settings={"spark.driver.memory": given.memory}) as lake,
    ):
        lake.sql("create database bench")
        for view, path in inputs.items():
            lake.spark.read.parquet(str(path)).createOrReplaceTempView(view)
        for number in range(given.rounds + 1):
            for way, write in ways(lake, Path(place), given.ways.split(",")).items():
                name = f"{way.replace('-', '_')}_{number}"
                if way != "parquet":
                    lake.sql(_CREATE.format(name=name, more=_WITH_LOG.get(way, "")))
                # the first round warms up, with batches only
                for view in list(inputs)[0 if number else 1 :]:
                    cost = Cost() if number == 0 else costs.setdefault((view.split("_")[0], way), Cost())
                    with cost.measured():
                        write(lake.spark.table(view), view, name)
                if way != "parquet":
                    runs = sum(len(s.files) for s in lake.table(f"bench.{name}").scan().plan())
                    log = lake.table(f"bench.{name}").logical.log
                    size = os.path.getsize(log.address) if log is not None and os.path.isfile(log.address) else 0
                    lake.sql(f"drop table bench.{name} purge")
                    print(json.dumps({"way": way, "round": number, "files": runs, "log_bytes": size}), flush=True)
    found: dict[str, dict[str, Any]] = {}
    for (step, way), cost in costs.items():
        found.setdefault(way, {})[step] = cost.measurements(costs[step, "parquet"])
        print(json.dumps({"step": step, "way": way, **found[way][step]}))
    if given.results is not None:
        write_results(given.results, {"batch load": found}, busy)


if __name__ == "__main__":
    main()
