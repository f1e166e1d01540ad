"""The measurements of workload W as a table of text and as one plot."""

from __future__ import annotations

from typing import Any

from environments import floor_of

STEPS = (
    "start", "base_load", "scan_base", "upsert", "scan_agg", "scan_pruned", "point", "range", "plan", "compact",
    "scan_agg_compacted", "scan_pruned_compacted", "point_compacted", "range_compacted", "plan_compacted",
)  # fmt: skip
DISKS = ("disk_base", "disk_after_upserts", "disk_after_compact")


def table_of(measurements: dict[str, Any]) -> str:
    """Markdown: a row per step, a column per system; wall / CPU seconds and both as ratios to its floor."""
    there = [name for name, found in measurements.items() if found["steps"]]
    lines = ["| step | " + " | ".join(there) + " |", "|---" * (len(there) + 1) + "|"]
    for step in STEPS:
        lines.append(f"| {step} | " + " | ".join(_step(measurements, name, step) for name in there) + " |")
    for disk in DISKS:
        lines.append(
            f"| {disk} MB (data files/files) | " + " | ".join(_disk(measurements[n], disk) for n in there) + " |"
        )
    lines.append("| peak MB | " + " | ".join(f"{measurements[name]['peak_mb']:.0f}" for name in there) + " |")
    shared = (f"{measurements[name]['peak_shared_once_mb']:.0f}" for name in there)
    lines.append("| peak MB, shared pages once | " + " | ".join(shared) + " |")
    lines.append("| checks | " + " | ".join(_checks(measurements[name]) for name in there) + " |")
    for name, found in measurements.items():
        lines += [f"{name}: {found['missing']}"] if "missing" in found else []
        lines += [f"{name}: {wrong}" for wrong in found["wrong"][:5]]
    return "\n".join(lines)


def floor_step(measurements: dict[str, Any], name: str, step: str) -> dict[str, float] | None:
    """The floor's measurements of a step; after a compaction, that of its files as they were."""
    floor = measurements.get(floor_of(name), {}).get("steps", {})
    found: dict[str, float] | None = floor.get(step) or floor.get(step.removesuffix("_compacted"))
    return found


def _step(measurements: dict[str, Any], name: str, step: str) -> str:
    found = measurements[name]["steps"].get(step)
    if found is None:
        return "-"
    text = f"{found['wall']:.3g} / {found['cpu']:.3g}"
    if floor_of(name) == name:
        return text
    wall, cpu = (_ratio(measurements, name, step, clock) for clock in ("wall", "cpu"))
    ratios = ", ".join(f"{ratio:.2f}" for ratio in (wall, cpu) if ratio is not None)
    return f"{text} (x{ratios})" if ratios else text


def _disk(found: dict[str, Any], step: str) -> str:
    disk = found["disk"].get(step)
    return "-" if disk is None else f"{disk['mb']:.0f} ({disk['data_files']}/{disk['files']})"


def _checks(found: dict[str, Any]) -> str:
    return f"{found['checks']} ok" if not found["wrong"] else f"{len(found['wrong'])} of {found['checks']} WRONG"


def plot(measurements: dict[str, Any], path: str) -> None:
    """Ratios to the floor, wall clock above and CPU below, a group of bars per step; needs matplotlib.

    Bars begin at 1, plain Parquet of the same PySpark, on a logarithmic axis.
    """
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.ticker import LogFormatter

    there = [name for name, found in measurements.items() if found["steps"] and not name.startswith("parquet")]
    steps = [step for step in STEPS if any(_ratio(measurements, name, step, "wall") for name in there)]
    figure, panels = plt.subplots(2, figsize=(14, 9), sharex=True, layout="constrained")
    width = 0.8 / max(1, len(there))
    for axes, clock in zip(panels, ("wall", "cpu"), strict=True):
        for place, name in enumerate(there):
            ratios = np.array([_ratio(measurements, name, step, clock) or np.nan for step in steps])
            centres = np.arange(len(steps)) + (place - len(there) / 2 + 0.5) * width
            axes.bar(centres, ratios - 1, width, bottom=1, label=name)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
        axes.yaxis.set_tick_params(which="minor", labelsize=7)
        axes.set_ylabel(f"{clock} time / that of plain Parquet")
    panels[0].legend(ncols=4)
    panels[1].set_xticks(range(len(steps)), steps, rotation=30, ha="right")
    figure.savefig(path)
    plt.close(figure)


def _ratio(measurements: dict[str, Any], name: str, step: str, clock: str) -> float | None:
    """None where the system or its floor does not do the step, or the clock is too coarse for it."""
    found, floor = measurements[name]["steps"].get(step), floor_step(measurements, name, step)
    if found is None or floor is None or not floor[clock] or not found[clock]:
        return None
    return float(found[clock] / floor[clock])
