"""Runs the benchmarks and prints tables; ``--results DIR`` writes a JSON file of each, and the page of all of them.

usage: run.py [--only workload,python,runs,…] [--results DIR] [--json FILE] [--plot FILE] …

``sizes`` (workload W at 0.5, 1 and 4 times the rows) runs for hours, so only when asked for. ``planning`` compares
with pypaimon too when ``--pypaimon`` names a Python that has it. docs/benchmarks.md says what each of them measures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
from environments import ENVIRONMENTS
from growth import against_runs, at_sizes, runs_table, without_spark
from latency import spark_to_spark
from planning import plans
from realtime import realtime
from report import plot, table_of
from results import busy_cores, file_name, write_page, write_results
from small_commits import small_commits
from tail import writer_to_tail
from throughput import double_write
from workload import run_rounds, with_floors
from workload_input import Shape
from writer_rates import writer_rates

PARTS = (
    "workload", "python", "runs", "small commits", "writer rates", "latency", "realtime", "tail", "throughput",
    "planning",
)  # fmt: skip
RUNS_SYSTEMS = ("lakelog", "lakelog_dv", "paimon", "lakelog_python", "pypaimon_rust")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--log", default="embedded,kafka")
    parser.add_argument("--format", default="debezium-json,arrow")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of throughput; twice as many for arrow")
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--systems", default=",".join(s for s in ENVIRONMENTS if not s.startswith("parquet-")))
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pypaimon")
    parser.add_argument("--results", help="directory of a JSON file per benchmark, and of the page of all of them")
    parser.add_argument("--json")
    parser.add_argument("--plot")
    given = parser.parse_args()
    busy = busy_cores()
    chosen = given.only.split(",")
    measurements: dict[str, Any] = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
    }
    measurements |= _workloads(chosen, given.systems.split(","), given.scale, given.rounds)
    workload = _workload_name(given.scale)
    if given.plot and workload in measurements:
        plot(measurements[workload], given.plot)
    if "small commits" in chosen:
        measurements["small commits"] = small_commits(given.commits)
    for log in given.log.split(","):
        if "writer rates" in chosen:
            measurements[f"writer rates {log}"] = writer_rates(log, min(given.rows, 1_000_000), given.rounds)
        if "tail" in chosen:
            measurements[f"tail {log}"] = writer_to_tail(log)
        if "latency" in chosen:
            measurements[f"latency {log}"] = spark_to_spark(log, given.buckets, given.seconds)
        if "throughput" in chosen:
            for form in given.format.split(","):
                measurements[f"throughput {form} {log}"] = double_write(
                    log, given.rows * (2 if form == "arrow" else 1), form=form
                )
        print(json.dumps({k: v for k, v in measurements.items() if k.endswith(log)}), flush=True)
    if "realtime" in chosen:
        measurements["realtime"] = realtime(given.seconds)
        print(json.dumps(measurements["realtime"]), flush=True)
    if "planning" in chosen:
        for name, found in plans(given.pypaimon):
            measurements[name] = found
            print(json.dumps({name: found}), flush=True)
    for name, found in measurements.items():
        if not isinstance(found, dict) or "steps" not in str(found):
            print(f"{name:48} {found}")
    if given.results:
        place = Path(given.results)
        write_results(place, {name: found for name, found in measurements.items() if isinstance(found, dict)}, busy)
        if workload in measurements and find_spec("matplotlib") is not None:
            plot(measurements[workload], str((place / file_name(workload)).with_suffix(".svg")))
            write_page(place)
    if given.json:
        Path(given.json).write_text(json.dumps(measurements, indent=2) + "\n", encoding="utf-8")


def _workload_name(scale: float) -> str:
    return "workload" if scale == 1 else f"workload x{scale:g}"


def _workloads(chosen: list[str], systems: list[str], scale: float, rounds: int) -> dict[str, Any]:
    """The measurements of the parts that compare systems; prints a table of each."""
    out: dict[str, Any] = {}
    if "workload" in chosen:
        name = _workload_name(scale)
        for out[name] in run_rounds(with_floors(systems), Shape.at_scale(scale), rounds):
            pass
        print(f"{name}\n{table_of(out[name])}\n", flush=True)
    if "sizes" in chosen:
        for name, found in at_sizes(with_floors(systems), scale, rounds):
            out[name] = found
            print(f"{name}\n{table_of(found)}\n", flush=True)
    if "runs" in chosen:
        out["runs"] = against_runs([s for s in systems if s in RUNS_SYSTEMS], scale, rounds)
        print(f"runs\n{runs_table(out['runs'])}\n", flush=True)
    if "python" in chosen:
        out["python"] = without_spark(rounds)
        print(f"without Spark\n{table_of(out['python'])}\n", flush=True)
    return out


if __name__ == "__main__":
    main()
