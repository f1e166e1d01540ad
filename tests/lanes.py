"""The lanes of the tests: the calls of pytest that a verb of the Makefile makes, and which tests each of them runs."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
COLLECTED: Final = pytest.StashKey[list[pytest.Item]]()
"""Under this key a run keeps all tests that it has collected, those that its expression leaves out among them."""
_PYTEST: Final = [".venv/bin/python", "-m", "pytest"]


@dataclass(frozen=True)
class Lane:
    """One call of pytest: its expression of markers, its paths, and the paths below them that it leaves out."""

    expression: str
    paths: tuple[Path, ...]
    ignored: tuple[Path, ...]

    def has_file(self, path: Path) -> bool:
        """Whether the tests of a file are among those that it chooses from."""
        return any(map(path.is_relative_to, self.paths)) and not any(map(path.is_relative_to, self.ignored))

    def has(self, path: Path, markers: Set[str]) -> bool:
        """Whether it runs a test with these markers of a file."""
        names = {word: word in markers for word in self.expression.replace("(", " ").replace(")", " ").split()}
        return self.has_file(path) and (not self.expression or bool(eval(self.expression, {}, names)))


def lanes_of(*verbs: str) -> list[Lane]:
    """The lanes of some verbs, as ``make -n`` prints them; those on other kinds and versions of Spark are left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    printed = subprocess.run(
        ["make", "--dry-run", *verbs], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    calls = [shlex.split(line) for line in printed.stdout.splitlines() if " -m pytest " in line]
    calls = [call[call[0].startswith("LAKELOG_LANE=") :] for call in calls]
    return [_lane(call[len(_PYTEST) :]) for call in calls if call[: len(_PYTEST)] == _PYTEST]


def _lane(arguments: list[str]) -> Lane:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", dest="expression", default="")
    for option in ("-n", "--dist", "--cases", "--files"):
        parser.add_argument(option)
    parser.add_argument("--ignore", dest="ignored", action="append", default=[])
    parser.add_argument("paths", nargs="*")
    given = parser.parse_intermixed_args(arguments)
    return Lane(given.expression, *(tuple(ROOT / path for path in some) for some in (given.paths, given.ignored)))
