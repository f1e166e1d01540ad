"""Which of the collected tests a run keeps: a share of the cases of each test, and a share of the files, both drawn by
the seed of ``depth``. Lanes with a budget run so (``Makefile``); ``make test-long`` runs all.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import pytest

from depth import DEPTH, Depth


def add_options(parser: pytest.Parser) -> None:
    """``--cases`` and ``--files``."""
    for name, what in (("cases", "the cases of each test, at least one"), ("files", "the tests, by whole files")):
        text = f"run only this share of {what}: LAKELOG_SEED draws them"
        parser.addoption(f"--{name}", type=Fraction, default=Fraction(1), help=text)


@dataclass(frozen=True)
class Sampling:
    """A plugin that leaves out what the seed does not draw."""

    cases: Fraction
    files: Fraction
    depth: Depth = DEPTH

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Called after markers have left out the tests of other lanes."""
        tests: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            tests[item.nodeid.partition("[")[0]].append(item)
        kept = {item for name, group in tests.items() for item in self._drawn_cases(name, group)}
        kept &= self._drawn_files(items)
        if len(kept) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = [item for item in items if item in kept]

    def _drawn_cases(self, name: str, items: list[pytest.Item]) -> list[pytest.Item]:
        share = max(self.cases, Fraction(1, len(items)))
        return [item for number, item in enumerate(items) if self.depth.keeps(name, number, len(items), share)]

    def _drawn_files(self, items: list[pytest.Item]) -> set[pytest.Item]:
        """Whole files, so that what they share (a session, a server, a job) starts for the files that run alone."""
        files: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            files[item.nodeid.partition("::")[0]].append(item)
        kept: set[pytest.Item] = set()
        for name in sorted(files, key=lambda name: zlib.crc32(f"{self.depth.seed} {name}".encode())):
            if len(kept) < len(items) * self.files:
                kept.update(files[name])
        return kept
