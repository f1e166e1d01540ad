"""The numbers of pages are those of ``docs/results``: what ``scripts/measurements.py`` writes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "measurements.py"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    figures = {"a 1.0": {"wall": 0.614}, "b": {"wall": 0.5, "rows": 657_523}}
    (results / "run.json").write_text(json.dumps({"machine": {"date": "2026-11-27"}, "figures": figures}))
    for name in ("README.md", "docs/compare.md", "docs/costs.md"):
        (tmp_path / name).write_text("nothing\n")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
    return tmp_path


def run(house: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(house / "scripts" / SCRIPT.name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_numbers_get_the_digits_that_the_page_has(house: Path) -> None:
    page = house / "README.md"
    page.write_text(
        "0.00 s<!-- run: a 1.0.wall -->, 9.9 times<!-- run: a 1.0.wall / b.wall -->, "
        "1,000 rows a second<!-- run: b.rows -->, 7<!-- run: b.rows -->, 2020-01-01<!-- run: machine.date -->\n"
    )
    assert "differ" in run(house, "--check").stdout
    assert run(house).returncode == 0
    text = page.read_text()
    assert [part.partition("<")[0] for part in text.split(", ")] == [
        "0.61 s", "1.2 times", "658,000 rows a second", "657,523", "2026-11-27",
    ]  # fmt: skip
    assert run(house, "--check").returncode == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It took 0.61 s.", "README.md:1: '0.61 s' has no measurement"),
        ("1.2 times the time", "'1.2 times' has no measurement"),
        ("0.61 s<!-- run: c.wall -->", "run.json has no c.wall"),
        ("0.61 s<!-- other: a.wall -->", "has no other.json"),
        ("0.62 s<!-- run: a 1.0.wall -->", "differ from docs/results"),
    ],
)
def test_a_number_without_its_measurement_fails(house: Path, text: str, words: str) -> None:
    (house / "README.md").write_text(text + "\n")
    done = run(house, "--check")
    assert done.returncode == 1 and words in done.stdout


def test_settings_and_code_are_no_measurements(house: Path) -> None:
    (house / "README.md").write_text("each 1 s<!-- set -->, `commit.interval = 1 s`\n\n```text\n0.5 s\n```\n")
    assert run(house, "--check").returncode == 0
