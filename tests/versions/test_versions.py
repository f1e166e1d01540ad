"""The matrix of two versions: each continues what the other wrote, or refuses it by name and changes nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from versions.kinds import KINDS, has_log, rows_of
from versions.old_version import OLD_VERSION, ROOT, Refused, Version, old_python

RESULTS = ROOT / "docs/results/versions.json"
WRITE = "LAKELOG_WRITE_RESULTS"
CONTINUES = "both continue"
THEN = "continues"


@pytest.fixture(scope="module")
def processes() -> Iterator[tuple[Version, Version]]:
    """The old version and this one: a start costs more than a case."""
    old, new = Version.start(old_python()), Version.start(sys.executable)
    yield old, new
    old.close()
    new.close()


@pytest.fixture
def pair(tmp_path: Path, processes: tuple[Version, Version]) -> tuple[Version, Version]:
    """The old version and this one, on one warehouse."""
    for version in processes:
        version.warehouse = str(tmp_path / "w")
    return processes


def stored(place: Path) -> dict[str, bytes]:
    """Every file of a table but leases and logs of use, with its bytes."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not {"staged", "compact", "writers"} & set(path.parts) and "sqlite" not in path.name
    }


class Case:
    """One kind of table, which two versions write in turn."""

    def __init__(self, name: str, place: Path) -> None:
        self.columns, self.options = KINDS[name]
        self.place, self.steps = place / "w", 0
        self.written: list[dict[str, Any]] = []

    def write(self, version: Version) -> None:
        """The rows of the next step. A step that is refused has written nothing."""
        rows = rows_of(self.columns, self.steps + 1)
        version("write", rows)
        self.steps += 1
        self.written += rows

    def check(self, *versions: Version) -> None:
        """Each version reads the expected rows in every way."""
        for version in versions:
            assert version("read") == self.expected, version.version
            if has_log(self.options):
                assert version("fold") == self.expected, version.version
                assert version("read", **{"read.mode": "union"}) == self.expected, version.version

    def turn(self, version: Version) -> str:
        """One version goes on, with everything that it does; "" or the error by which it has refused at once."""
        before = stored(self.place)
        try:
            self.write(version)
        except Refused as why:
            assert "InternalError" not in why.name, str(why)
            after = stored(self.place)
            changed = [path for path, data in before.items() if after.get(path) != data]
            assert changed == [], f"{version.version} has refused ({why}) and changed files"
            return f"{why.name}, {why.text.replace(str(self.place), '…')[:160]}"
        self.check(version)
        version("compact")
        self.check(version)
        return ""

    @property
    def expected(self) -> list[Any]:
        """The rows after the steps."""
        if "primary key" not in self.columns:
            return sorted((list(row.values()) for row in self.written), key=repr)
        by_key: dict[Any, list[Any]] = {}
        for row in self.written:
            values, before = list(row.values()), by_key.get(row["id"])
            engine = self.options.get("merge-engine", "")
            if before is not None and (engine == "first-row" or (engine == "aggregation" and before[1] > values[1])):
                continue
            by_key[row["id"]] = values
        return sorted(by_key.values(), key=repr)


def crossed(name: str, first: Version, second: Version, place: Path) -> str:
    """What happens to a table that one version makes and the other goes on with, and the first one again."""
    case = Case(name, place)
    try:
        first("create", case.columns, case.options)
    except Refused as why:
        return f"{first.version} has no such tables ({why.name})"
    assert case.turn(first) == ""
    refusal = case.turn(second)
    if refusal:
        assert case.turn(first) == ""
        return f"refused by {second.version}: {refusal}"
    back = case.turn(first)
    if back:
        assert case.turn(second) == ""
        second("expire")
        case.check(second)
        return f"{THEN}; then refused by {first.version}: {back}"
    assert case.turn(second) == ""
    first("expire")
    case.check(first, second)
    return CONTINUES


def noted(name: str, direction: str, result: str) -> None:
    """Keeps a cell of the page, or compares it with the page's."""
    cells: dict[str, dict[str, str]] = json.loads(RESULTS.read_text())["cells"] if RESULTS.exists() else {}
    if os.environ.get(WRITE):
        cells.setdefault(name, {})[direction] = result
        content = {"old": OLD_VERSION, "cells": {key: cells[key] for key in KINDS if key in cells}}
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    assert cells.get(name, {}).get(direction) == result, f"{RESULTS.name} says something else: run with {WRITE}=1"


@pytest.mark.parametrize("name", KINDS)
def test_this_version_continues_tables_of_the_old_one(tmp_path: Path, pair: tuple[Version, Version], name: str) -> None:
    old, new = pair
    result = crossed(name, old, new, tmp_path)
    assert result.startswith((CONTINUES, THEN, f"{OLD_VERSION} has no such tables")), result
    noted(name, "old to new", result)


@pytest.mark.parametrize("name", KINDS)
def test_the_old_version_continues_tables_of_this_one_or_refuses_them(
    tmp_path: Path, pair: tuple[Version, Version], name: str
) -> None:
    old, new = pair
    noted(name, "new to old", crossed(name, new, old, tmp_path))


def test_the_old_version_does_not_pad_keys(tmp_path: Path, pair: tuple[Version, Version]) -> None:
    """What 0.1.0 misreads without an error, as the page of versions says. It cannot be changed any more."""
    old, new = pair
    new("create", "(id char(4), v string, primary key (id))", {"bucket": "1"})
    new("write", [{"id": "k", "v": "new"}])
    old("write", [{"id": "k", "v": "old"}])
    assert new("read") == [["k   ", "new"], ["k", "old"]]
