"""Several processes want the same of a catalog at once: one gets it, and what they leave behind is whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.catalog.base import Identifier
from lakelog.table.open import open_catalog

pytestmark = pytest.mark.slow
RIVALS, ROUNDS = 4, 5


@pytest.fixture
def rivals(catalog_options: dict[str, str], tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("catalog_job.py")), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(RIVALS)
    ]
    for process in started:
        tell(process, json.dumps({"warehouse": str(tmp_path / "warehouse"), "options": catalog_options}))
    yield started
    for process in started:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.wait(120)
        process.stdout.close()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def all_do(rivals: list[subprocess.Popen[str]], step: str, number: int) -> list[str]:
    """What became of a step that all take at once."""
    for process in rivals:
        tell(process, f"{step} {number}")
    return [process.stdout.readline().strip() for process in rivals if process.stdout is not None]


def test_one_wins_and_all_know(
    rivals: list[subprocess.Popen[str]], catalog_options: dict[str, str], tmp_path: Path
) -> None:
    catalog = open_catalog(str(tmp_path / "warehouse"), None, catalog_options)
    makes_whole_databases = catalog_options["catalog.type"] != "filesystem"
    for at in range(ROUNDS):
        found = Counter(all_do(rivals, "database", at))
        assert set(found) <= {"done", "AlreadyExists"} and found["done"] >= 1
        assert found["done"] == 1 or not makes_whole_databases, "a directory is made by several as well as by one"
        table = Identifier(f"db{at}", "t")
        told = all_do(rivals, "create", at)
        assert Counter(told) == {"done": 1, "AlreadyExists": RIVALS - 1}
        made_by = told.index("done")
        assert catalog.load_table(table).schema.field_names == ("id", f"made_by_{made_by}")

        assert all_do(rivals, "alter", at) == ["done"] * RIVALS
        fields = catalog.load_table(table).schema.fields
        assert sorted(f.name for f in fields[2:]) == [f"c{n}" for n in range(RIVALS)]
        assert len({f.id for f in fields}) == len(fields)

        told = all_do(rivals, "rename", at)
        assert Counter(told) == {"done": 1, "NotFound": RIVALS - 1}
        renamed = f"t{told.index('done')}"
        assert catalog.list_tables(table.database) == [renamed]
        assert catalog.load_table(Identifier(table.database, renamed)).schema.fields == fields

        assert all_do(rivals, "own", at) == ["done"] * RIVALS
        told = all_do(rivals, "merge", at)
        assert Counter(told) == {"done": 1, "AlreadyExists": RIVALS - 1}
        winner = told.index("done")
        assert catalog.load_table(Identifier(table.database, "one")).schema.field_names == (f"of_{winner}",)
        losers = [f"own{n}" for n in range(RIVALS) if n != winner]
        assert sorted(catalog.list_tables(table.database)) == sorted([renamed, "one", *losers])
        for name in losers:
            assert catalog.load_table(Identifier(table.database, name)).schema.field_names == (f"of_{name[3:]}",)

        found = Counter(all_do(rivals, "drop", at))
        assert set(found) <= {"done", "NotFound"} and found["done"] >= 1
        assert "one" not in catalog.list_tables(table.database)
    assert len(catalog.list_databases()) == ROUNDS
