"""Runs the benchmarks and prints a table; ``--json FILE`` writes the figures.

usage: run.py [--only latency,tail,throughput,planning] [--log embedded,kafka] [--seconds 40] [--json FILE]

``planning`` compares with pypaimon too when ``--pypaimon`` names a Python that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import pyspark
from latency import spark_to_spark
from planning import plans
from tail import writer_to_tail
from throughput import double_write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="latency,tail,throughput,planning")
    parser.add_argument("--log", default="embedded,kafka")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--pypaimon")
    parser.add_argument("--json")
    given = parser.parse_args()
    chosen = given.only.split(",")
    figures: dict[str, Any] = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
    }
    for log in given.log.split(","):
        if "tail" in chosen:
            figures[f"tail {log}"] = writer_to_tail(log)
        if "latency" in chosen:
            figures[f"latency {log}"] = spark_to_spark(log, given.buckets, given.seconds)
        if "throughput" in chosen:
            figures[f"throughput {log}"] = double_write(log, given.rows)
        print(json.dumps({k: v for k, v in figures.items() if k.endswith(log)}), flush=True)
    if "planning" in chosen:
        for name, found in plans(given.pypaimon):
            figures[name] = found
            print(json.dumps({name: found}), flush=True)
    for name, found in figures.items():
        print(f"{name:48} {found}")
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
