"""Session start, upserts and scans on each PySpark that the tests know, beside plain Parquet of the same PySpark.

usage: sparks.py [--sparks 3.5,4.0] [--scale 0.1] [--rounds 3] [--results DIR]

Runs workload W (``workload.py``) in the environments of ``make test-on-sparks``, which have to be there
(``make .venv-spark-3.5``); the newest PySpark is that of this Python. Releases take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, Environment
from results import busy_cores, write_results
from workload import run_rounds
from workload_input import Shape

_ROOT = Path(__file__).parents[1]
_VERSION = "import pyspark; print(pyspark.__version__)"
_STEPS = {"upsert": "upsert", "scan": "scan_agg", "scan_compacted": "scan_agg_compacted"}
"""Name of a figure → step of workload W."""


def releases(chosen: list[str]) -> dict[str, Environment]:
    """Full version → environment: those of the chosen releases that are there, and this Python's as the last one."""
    made = [_ROOT / f".venv-spark-{release}" / "bin" / "python" for release in chosen]
    environments = [*(Environment(interpreter=str(python)) for python in made if python.exists()), Environment()]
    return {subprocess.check_output([e.interpreter, "-c", _VERSION], text=True).strip(): e for e in environments}


def figures(ours: dict[str, Any], plain: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of a session's start, of upserts and of scans, and their ratios to plain Parquet."""
    missing = [run["missing"] for run in (ours, plain) if "missing" in run]
    if missing or ours["wrong"]:
        raise SystemExit(f"wrong or not to its end: {missing} {ours['wrong']}")
    mine, floor = ours["steps"], plain["steps"]
    out = {"start_cpu_s": round(mine["start"]["cpu"], 1), "parquet_start_cpu_s": round(floor["start"]["cpu"], 1)}
    for name, step in _STEPS.items():
        beside = floor[step.removesuffix("_compacted")]["cpu"]
        out |= {f"{name}_cpu_s": round(mine[step]["cpu"], 2), f"{name}_cpu_ratio": round(mine[step]["cpu"] / beside, 2)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sparks", default="3.5,4.0,4.1,4.2")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    busy, known = busy_cores(), releases(given.sparks.split(","))
    ENVIRONMENTS.update({f"{s}-on-{v}": e for v, e in known.items() for s in ("parquet", "lakelog")})
    systems = [f"{system}-on-{version}" for version in known for system in ("parquet", "lakelog")]
    for found in run_rounds(systems, Shape.at_scale(given.scale), given.rounds, given.repeat):
        if len(found) == len(systems):
            measured = {v: figures(found[f"lakelog-on-{v}"], found[f"parquet-on-{v}"]) for v in known}
            print(json.dumps(measured), flush=True)
            if given.results:
                write_results(given.results, {"Spark releases": measured}, busy)


if __name__ == "__main__":
    main()
