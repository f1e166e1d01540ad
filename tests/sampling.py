"""Which of the collected tests a run keeps: a share of the cases of each test, and a share of the tests, both drawn by
the seed of ``depth``. Lanes with a budget run so (``Makefile``); ``make test-long`` runs all.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import pytest

from depth import DEPTH, Depth


def add_options(parser: pytest.Parser) -> None:
    """``--cases`` and ``--tests``."""
    for name, what in (("cases", "the cases of each test, at least one"), ("tests", "the tests")):
        text = f"run only this share of {what}: LAKELOG_SEED draws them"
        parser.addoption(f"--{name}", type=Fraction, default=Fraction(1), help=text)


@dataclass(frozen=True)
class Sampling:
    """A plugin that leaves out what the seed does not draw."""

    cases: Fraction
    tests: Fraction
    depth: Depth = DEPTH

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Called after markers have left out the tests of other lanes."""
        tests: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            tests[item.nodeid.partition("[")[0]].append(item)
        left_out = {item for name, group in tests.items() for item in self._left_out(name, group)}
        if left_out:
            config.hook.pytest_deselected(items=[item for item in items if item in left_out])
            items[:] = [item for item in items if item not in left_out]

    def _left_out(self, name: str, items: list[pytest.Item]) -> list[pytest.Item]:
        if not self.depth.keeps(f"test {name}", 0, 1, self.tests):
            return items
        share = max(self.cases, Fraction(1, len(items)))
        return [item for number, item in enumerate(items) if not self.depth.keeps(name, number, len(items), share)]
