"""Workload W: a base of five million rows, ten upsert batches, and the reads, in lakelog and in its peers.

usage: workload.py [--systems parquet,lakelog,…] [--scale 1] [--rounds 3] [--json FILE] [--plot FILE]

Rounds are interleaved (A B C, A B C, …), each system in a process of its own; a result is the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, floor_of
from process_tree import MemorySampler, end_tree
from report import plot, table_of
from workload_input import Shape, make_input

from lakelog.errors import LakelogError
from lakelog.service.servers.jars import jar_cache

LIMIT_S = 3600.0
"""A system that needs longer than this for one run is given up, and that is what is told of it."""

_COARSE_S = 0.25
"""By how much samples of the CPU time may be off; what a system reads of itself is exact, but for lost processes."""

_SIDE = Path(__file__).with_name("workload_side.py")


def run_rounds(
    systems: Iterable[str],
    shape: Shape,
    rounds: int,
    repeat: int = 3,
    limit_s: float = LIMIT_S,
    more: tuple[str, ...] = (),
) -> Iterator[dict[str, Any]]:
    """Results of all systems so far, after each run of one; ``more`` are arguments for ``workload_side.py``."""
    source = make_input(shape, jar_cache().parent / "workload")
    taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
    gone: set[str] = set()
    for _ in range(rounds):
        for system in systems:
            if system in gone:
                continue
            found = run_system(system, source, repeat, limit_s, more)
            taken[system].append(found)
            if "missing" in found:
                gone.add(system)
            yield {name: median_of(runs) for name, runs in taken.items()}


def with_floors(systems: Iterable[str]) -> list[str]:
    """The systems, and before the first of each PySpark its plain Parquet."""
    out: list[str] = []
    for system in systems:
        for name in (floor_of(system), system):
            if name not in out:
                out.append(name)
    return out


def run_system(
    system: str, source: Path, repeat: int, limit_s: float = LIMIT_S, more: tuple[str, ...] = ()
) -> dict[str, Any]:
    """All steps of one system: ``steps`` (each with wall, cpu and peak, in lists), ``disk``, ``peak_mb``, ``checks``.

    One that cannot run, or not to the end, has ``missing``: why; what it did before is there.
    """
    try:
        environment = ENVIRONMENTS[system]
        python, jars = environment.python(), environment.jars()
    except LakelogError as why:
        return {**_measurements([], MemorySampler(0)), "missing": f"not available: {why}"}
    place = Path(tempfile.mkdtemp(prefix=f"lakelog-bench-{system}-"))
    (place / "data").mkdir()
    command = [python, str(_SIDE), system.partition("-")[0], str(source), str(place / "data"), "--repeat", str(repeat)]
    command += ["--jars", ",".join(map(str, jars)), *more]
    given = dict(os.environ)
    if environment.packages:
        given.pop("PYTHONPATH", None)
    errors = place / "errors.txt"
    try:
        with (
            errors.open("w", encoding="utf-8") as said,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=given, cwd=place) as side,
        ):
            return _followed(side, errors, limit_s)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _followed(side: subprocess.Popen[str], errors: Path, limit_s: float) -> dict[str, Any]:
    """Takes the lines as they come, so that what a system did before it failed or was given up is kept."""
    sampler = MemorySampler(side.pid)
    sampler.start()
    began = time.monotonic()
    slow = threading.Timer(limit_s, lambda: end_tree(side.pid))
    slow.start()
    lines: list[dict[str, Any]] = []
    for text in side.stdout or ():
        if text.startswith("{"):
            lines.append(json.loads(text))
            print(text[:120].rstrip(), file=sys.stderr, flush=True)
    side.wait()
    slow.cancel()
    sampler.stop()
    found = _measurements(lines, sampler)
    if side.returncode:
        late = time.monotonic() - began > limit_s
        said = [t.strip() for t in errors.read_text(encoding="utf-8", errors="replace").splitlines() if t.strip()]
        why = f"given up after {limit_s:.0f} s" if late else f"failed: {' | '.join(said[-3:])[-600:]}"
        found["missing"] = f"{why} (done: {', '.join(found['steps']) or 'nothing'})"
    return found


def _measurements(lines: list[dict[str, Any]], sampler: MemorySampler) -> dict[str, Any]:
    steps: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    disk, wrong, checks = {}, [], 0
    for line in lines:
        if "disk" in line:
            disk[line.pop("disk")] = line
        elif "check" in line:
            checks += 1
            if line["wrong"]:
                wrong.append(f"{line['check']}: {line['wrong']}")
        else:
            step = steps[line["step"]]
            step["wall"].append(line["wall"])
            sampled = sampler.cpu_between(line["begin"], line["end"])
            # a process that ended and that nobody waited for took its time with it
            step["cpu"].append(line["cpu"] if line["cpu"] > sampled - _COARSE_S else sampled)
            step["peak_mb"].append(sampler.peak_mb(line["begin"], line["end"]))
    return {
        "steps": steps,
        "disk": disk,
        "peak_mb": sampler.peak_mb(),
        "peak_shared_once_mb": sampler.peak_shared_once_mb(),
        "checks": checks,
        "wrong": wrong,
    }


def median_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One result per step: the median over rounds of the medians within them; ``first`` is the first of each step."""
    steps = {}
    for step in runs[0]["steps"]:
        inside = [run["steps"][step] for run in runs if step in run["steps"]]
        steps[step] = {
            "wall": round(statistics.median(statistics.median(i["wall"]) for i in inside), 4),
            "cpu": round(statistics.median(statistics.median(i["cpu"]) for i in inside), 3),
            "first": round(statistics.median(i["wall"][0] for i in inside), 4),
            "peak_mb": max(max(i["peak_mb"]) for i in inside),
            "samples": [[round(w, 4) for w in i["wall"]] for i in inside],
        }
    why = [run["missing"] for run in runs if "missing" in run]
    return {
        "steps": steps,
        "disk": runs[0]["disk"],
        "peak_mb": statistics.median(r["peak_mb"] for r in runs),
        "peak_shared_once_mb": statistics.median(r["peak_shared_once_mb"] for r in runs),
        "checks": sum(r["checks"] for r in runs),
        "wrong": [w for r in runs for w in r["wrong"]],
        **({"missing": why[0]} if why else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default=",".join(s for s in ENVIRONMENTS if not s.startswith("parquet-")))
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--plot")
    given = parser.parse_args()
    shape = Shape.at_scale(given.scale)
    measurements: dict[str, Any] = {}
    chosen = with_floors(given.systems.split(","))
    for measurements in run_rounds(chosen, shape, given.rounds, given.repeat):
        if given.json:
            Path(given.json).write_text(json.dumps(measurements, indent=1) + "\n", encoding="utf-8")
    print(table_of(measurements), flush=True)
    if given.plot:
        plot(measurements, given.plot)


if __name__ == "__main__":
    main()
