"""What works on the PySpark of this run, by capability (``smoke.py``): the page of all of them is made of it.

A test that lakelog ends with an error that names a newer Spark ("… needs Spark 4.0, …") counts as *refused*, on older
ones only. ``LAKELOG_SPARK_RESULTS`` names the JSON file, to which a run adds the outcomes of its tests.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from smoke import BY_CAPABILITY

FILE: Final = os.environ.get("LAKELOG_SPARK_RESULTS", "")
_CAPABILITY: Final = {test: name for name, tests in BY_CAPABILITY.items() for test in tests}
_NEWER: Final = re.compile(r"[^\n]*needs Spark (\d+)\.(\d+)[^\n]*")


def refusal(error: BaseException) -> str | None:
    """The line of an error that names a newer Spark than that of this run; None for any other error."""
    found = _NEWER.search(str(error))
    if found is None:
        return None
    from pyspark.version import __version__

    is_older = tuple(map(int, __version__.split(".")[:2])) < (int(found[1]), int(found[2]))
    return found[0].strip() if is_older else None


@dataclass(eq=False)
class SparkResults:
    """A plugin that tells refusals from failures, and writes down what this PySpark could do."""

    found: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Reports a refusal as an expected failure, with its reason."""
        report = yield
        why = refusal(call.excinfo.value) if report.failed and call.excinfo is not None else None
        if why is not None:
            report.outcome, report.wasxfail = "skipped", why  # type: ignore[attr-defined]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the outcome of a test."""
        name = report.nodeid.rpartition("/")[2]
        capability = _CAPABILITY.get(name) or _CAPABILITY.get(name.partition("[")[0])
        if capability is None or (report.when != "call" and report.passed):
            return
        outcome = "refused" if hasattr(report, "wasxfail") else report.outcome
        self.found[capability][outcome].append(name)

    def pytest_sessionfinish(self) -> None:
        """Adds the outcomes on this version to the file; other tests keep theirs."""
        if not FILE or not self.found:
            return
        from pyspark.version import __version__

        path = Path(FILE)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for name, found in self.found.items():
            ran = {test for tests in found.values() for test in tests}
            before = known.setdefault(__version__, {}).get(name, {})
            outcomes = {key: {*before.get(key, ())} - ran | {*found.get(key, ())} for key in (*before, *found)}
            known[__version__][name] = {key: sorted(tests) for key, tests in outcomes.items() if tests}
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
