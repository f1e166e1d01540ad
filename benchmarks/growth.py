"""How cost grows: workload W at several sizes, the cost of a scan against the number of runs, tables without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workload import run_rounds
from workload_input import Shape

SIZES = (0.5, 1.0, 4.0)
RUNS_SHOWN = (0, 1, 2, 5, 10, 15, 20)
PYTHON_SHAPE = Shape(400_000, 400_000, 4, new=0.375, deleted=0.0)
"""Two million rows in five batches, of which one million are live: the yardstick of the systems without Spark."""

PYTHON_SYSTEMS = ("lakelog_python", "pypaimon", "pypaimon_rust")


def at_sizes(systems: Iterable[str], scale: float, rounds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, measurements of workload W) of each size, times ``scale``."""
    chosen = list(systems)
    for size in SIZES:
        measurements: dict[str, Any] = {}
        for measurements in run_rounds(chosen, Shape.at_scale(size * scale), rounds, more=()):  # noqa: B007 - the last
            pass
        yield f"workload x{size * scale:g}", measurements


def against_runs(systems: Iterable[str], scale: float, rounds: int) -> dict[str, Any]:
    """The measurements of a base of a million rows and twenty batches of 4 % of it, with two scans after each batch."""
    shape = Shape(round(1_000_000 * scale), round(40_000 * scale), 20)
    measurements: dict[str, Any] = {}
    for measurements in run_rounds(list(systems), shape, rounds, more=("--after-each-batch",)):  # noqa: B007 - the last
        pass
    return measurements


def runs_table(measurements: dict[str, Any]) -> str:
    """Markdown: wall / CPU seconds of the scans against the number of runs above the base, and the CPU as a ratio to
    that of the base alone.
    """
    there = [name for name, found in measurements.items() if "scan_agg@0" in found["steps"]]
    lines = ["| scan, runs | " + " | ".join(there) + " |", "|---" * (len(there) + 1) + "|"]
    for step in ("scan_agg", "scan_pruned"):
        for runs in RUNS_SHOWN:
            cells = [_cell(measurements[name]["steps"], step, runs) for name in there]
            lines.append(f"| {step} {runs} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(f"{n}: {f['missing']}" for n, f in measurements.items() if "missing" in f)])


def _cell(steps: dict[str, Any], step: str, runs: int) -> str:
    found, alone = steps.get(f"{step}@{runs}"), steps[f"{step}@0"]
    if found is None:
        return "-"
    ratio = f" (x{found['cpu'] / alone['cpu']:.2f})" if alone["cpu"] and runs else ""
    return f"{found['wall']:.2f} / {found['cpu']:.2f}{ratio}"


def without_spark(rounds: int) -> dict[str, Any]:
    """Results of the systems without Spark: ``base_load`` and ``upsert`` are the batches, ``scan_agg`` the read."""
    measurements: dict[str, Any] = {}
    for measurements in run_rounds(PYTHON_SYSTEMS, PYTHON_SHAPE, rounds):  # noqa: B007 - the last
        pass
    return measurements
