"""The page of results: every measurement of the JSON files, with the machine it was measured on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MEASUREMENTS: dict[str, Any] = {
    "arrow": {"write_rows_s": 123456, "write_cpu_us": {"driver": 0.5, "all": 9.25}},
    "json": {"write_rows_s": 99, "write_cpu_us": {"driver": 1.0, "broker": 2.0, "all": 3.0}},
}


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_a_benchmark_has_a_file_with_its_machine_and_a_section_of_the_page(tmp_path: Path) -> None:
    from results import write_results

    write_results(tmp_path, {"throughput embedded": MEASUREMENTS, "one": {"p50": 1.5, "p99": 7}}, busy=0.1)
    found = json.loads((tmp_path / "throughput-embedded.json").read_text())
    assert found["figures"] == MEASUREMENTS
    assert {"date", "commit", "cores", "busy_cores", "python", "lakelog"} <= set(found["machine"])
    lines = (tmp_path / "index.md").read_text().splitlines()
    assert lines.index("## One") < lines.index("## Throughput embedded")
    assert "| arrow | 123,456 |" in lines
    assert "| write: µs of CPU a row | driver | all | broker |" in lines
    assert "| arrow | 0.5 | 9.25 | – |" in lines
    assert "|  | 1.5 | 7 |" in lines


@pytest.mark.parametrize(
    ("busy", "told"), [(0.0, "quiet (0.0 cores busy before)"), (99.0, "**loaded** (99.0 cores busy before)")]
)
def test_a_measurement_says_whether_the_machine_was_loaded(tmp_path: Path, busy: float, told: str) -> None:
    from results import write_results

    write_results(tmp_path, {"one": {"p50": 1}}, busy)
    assert told in (tmp_path / "index.md").read_text()


def test_workload_is_a_table_of_systems_with_its_picture(tmp_path: Path) -> None:
    from results import write_results

    steps = {"upsert": {"wall": 2.0, "cpu": 1.0}}
    run = {"steps": steps, "disk": {}, "peak_mb": 1, "peak_shared_once_mb": 1, "checks": 1, "wrong": []}
    (tmp_path / "workload.svg").touch()
    write_results(tmp_path, {"workload": {"parquet": run, "lakelog": run}}, 0.0)
    text = (tmp_path / "index.md").read_text()
    assert "| upsert | 2 / 1 | 2 / 1 (x1.00, 1.00) |" in text
    assert "![Workload](workload.svg)" in text


def test_the_page_of_this_repository_shows_its_files() -> None:
    from results import RESULTS, page

    assert list(RESULTS.glob("*.json"))
    assert (RESULTS / "index.md").read_text(encoding="utf-8") == page(RESULTS)
