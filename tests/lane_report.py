"""What a lane cost: seconds, CPU and tests of each file, and how many servers it started; one JSON file a lane.

``LAKELOG_LANE`` names the lane; its file is ``build/lanes/<lane>.json`` (``scripts/ci.py`` prints them as a table).
"""

from __future__ import annotations

import json
import os
import resource
from collections import Counter
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

LANE: Final = os.environ.get("LAKELOG_LANE", "")
REPORTS: Final = Path(__file__).parent.parent / "build" / "lanes"
_CPU: Final = pytest.StashKey[float]()


def java_log_options() -> str:
    """Options by which each JVM leaves an empty file, named by its process: so they are counted."""
    starts = REPORTS / f"{LANE}.jvms"
    return f'-Xlog:safepoint=error:file="{starts}/%p"' if LANE and starts.is_dir() else ""


@dataclass
class FileCost:
    """Seconds (clock and CPU, children included) and number of tests of a file."""

    tests: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class LaneReport:
    """A plugin of the process that collects the reports; workers only measure."""

    started: float = field(default_factory=perf_counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    files: dict[str, FileCost] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost = self.files.setdefault(report.nodeid.partition("::")[0], FileCost())
        cost.seconds += report.duration
        cost.cpu_seconds += getattr(report, "cpu_seconds", 0.0)
        if report.when == "call":
            cost.tests += 1
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        jvms = REPORTS / f"{LANE}.jvms"
        files = sorted(self.files.items(), key=lambda entry: -entry[1].seconds)
        written = {
            "lane": LANE,
            "seconds": round(perf_counter() - self.started, 1),
            "outcomes": dict(self.outcomes),
            "jvms": len(list(jvms.iterdir())) if jvms.is_dir() else 0,
            "files": {name: {key: round(value, 2) for key, value in asdict(cost).items()} for name, cost in files},
        }
        REPORTS.mkdir(parents=True, exist_ok=True)
        (REPORTS / f"{LANE}.json").write_text(json.dumps(written, indent=1), encoding="utf-8")


class Measure:
    """A plugin of every process: the CPU seconds of a test go with its last report."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[_CPU] = _cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            report.cpu_seconds = _cpu_seconds() - item.stash[_CPU]  # type: ignore[attr-defined]
        return report


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
