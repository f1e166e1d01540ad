"""What works on the PySpark of this run, by capability (``smoke.py``): the page of all of them is made of it.

``LAKELOG_SPARK_RESULTS`` names the JSON file, to which a run adds its own version.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from smoke import BY_CAPABILITY

FILE: Final = os.environ.get("LAKELOG_SPARK_RESULTS", "")
_CAPABILITY: Final = {test: name for name, tests in BY_CAPABILITY.items() for test in tests}


def since_spark(item: pytest.Item) -> tuple[tuple[int, int], str] | None:
    """The first PySpark that can do what a test does, and why older ones cannot; None if all can."""
    marker = item.get_closest_marker("since_spark")
    if marker is None:
        return None
    release, why = marker.args
    major, minor = release.split(".")
    return (int(major), int(minor)), why


def refused(item: pytest.Item) -> str | None:
    """Why the PySpark of this run cannot do what a test does; None if it can."""
    from pyspark.version import __version__

    since = since_spark(item)
    if since is None or tuple(map(int, __version__.split(".")[:2])) >= since[0]:
        return None
    return since[1]


@dataclass(eq=False)
class SparkResults:
    """A plugin that leaves out what this PySpark cannot do, and writes down what it could."""

    found: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Called after the markers are set."""
        left_out = [item for item in items if item.get_closest_marker("since_spark") and refused(item)]
        for item in left_out:
            self._add(item.nodeid, "refused", str(refused(item)))
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the outcome of a test."""
        if report.when == "call" or report.failed:
            self._add(report.nodeid, report.outcome, report.nodeid.rpartition("/")[2])

    def _add(self, node: str, outcome: str, text: str) -> None:
        name = node.rpartition("/")[2]
        capability = _CAPABILITY.get(name) or _CAPABILITY.get(name.partition("[")[0])
        if capability is not None and text not in self.found[capability][outcome]:
            self.found[capability][outcome].append(text)

    def pytest_sessionfinish(self) -> None:
        """Adds this version to the file."""
        if not FILE or not self.found:
            return
        from pyspark.version import __version__

        path = Path(FILE)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known[__version__] = {name: dict(outcomes) for name, outcomes in sorted(self.found.items())}
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
