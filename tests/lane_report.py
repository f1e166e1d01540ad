"""What a lane cost: seconds, CPU and tests of each file, and the servers that it started; one JSON file a lane.

``LAKELOG_LANE`` names the lane; its file is ``build/lanes/<lane>.json`` (``scripts/ci.py`` prints them as a table).
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

from depth import DEPTH
from servers.shared import end_servers, jvm_starts

LANE: Final = os.environ.get("LAKELOG_LANE", "")
REPORTS: Final = Path(__file__).parent.parent / "build" / "lanes"
_CHOICES: Final = ("LAKELOG_SPARK", "LAKELOG_DEPTH", "LAKELOG_SEED")
"""What decides how a lane runs its tests, and so how a failed one is repeated."""
_ERROR_CHARACTERS: Final = 600
_BEFORE: Final = pytest.StashKey[tuple[float, int]]()


@dataclass
class FileCost:
    """Seconds (clock and CPU, children included), number of tests and starts of JVMs of a file."""

    tests: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    jvms: int = 0


@dataclass(eq=False)
class LaneReport:
    """A plugin of the process that collects the reports; it ends the servers of the run, and says how many started."""

    started: float = field(default_factory=perf_counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    """The end of the error of each failed test."""
    files: dict[str, FileCost] = field(default_factory=dict)
    servers: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the report of a phase of a test."""
        cost = self.files.setdefault(report.nodeid.partition("::")[0], FileCost())
        cost.seconds += report.duration
        cost.cpu_seconds += getattr(report, "cpu_seconds", 0.0)
        cost.jvms += getattr(report, "jvms", 0)
        if report.when == "call":
            cost.tests += 1
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext[-_ERROR_CHARACTERS:]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Writes the file of the lane."""
        self.servers["JVM"] = sum(path.is_file() for path in jvm_starts().parent.rglob("*"))
        starts, restarts = end_servers()
        self.servers.update(starts)
        self.restarts.update(restarts)
        if not LANE:
            return
        files = sorted(self.files.items(), key=lambda entry: -entry[1].seconds)
        written = {
            "seconds": round(perf_counter() - self.started, 1),
            "outcomes": self.outcomes,
            "failed": self.failed,
            "python": sys.executable,
            "environment": {name: value for name, value in os.environ.items() if name in _CHOICES},
            "servers": self.servers,
            "restarts": self.restarts,
            "files": {name: {key: round(value, 2) for key, value in asdict(cost).items()} for name, cost in files},
        }
        REPORTS.mkdir(parents=True, exist_ok=True)
        (REPORTS / f"{LANE}.json").write_text(json.dumps(written, indent=1), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What repeats the draws, and what was started."""
        started = ", ".join(f"{count} {name}" for name, count in self.servers.items() if count)
        terminalreporter.write_line(f"drawn with {DEPTH}; started: {started or 'no server'}")
        for name, count in self.restarts.items():
            terminalreporter.write_line(f"died and was started again: {name}, {count} times", red=True)


class Measure:
    """A plugin of every process: the CPU seconds of a test and its JVMs go with its last report."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[_BEFORE] = _cpu_seconds(), _jvms()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            cpu_seconds, jvms = item.stash[_BEFORE]
            report.cpu_seconds = _cpu_seconds() - cpu_seconds  # type: ignore[attr-defined]
            report.jvms = _jvms() - jvms  # type: ignore[attr-defined]
        return report


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _jvms() -> int:
    return sum(1 for _ in jvm_starts().iterdir())
