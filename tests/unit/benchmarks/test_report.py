"""The table of workload W: ratios to the floor of the same PySpark, and what a system could not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))


def run(**cpu: float) -> dict[str, Any]:
    """A run in which the wall clock is twice the CPU time."""
    steps = {step: {"wall": [2 * s], "cpu": [s], "peak_mb": [100.0]} for step, s in cpu.items()}
    memory = {"peak_mb": 100.0, "peak_shared_once_mb": 90.0}
    return {"steps": steps, "disk": {}, **memory, "checks": 2, "wrong": []}


def test_a_measurement_is_the_median_of_the_rounds() -> None:
    from workload import median_of

    found = median_of([run(upsert=1.0), run(upsert=9.0), run(upsert=2.0)])
    assert (found["steps"]["upsert"]["cpu"], found["steps"]["upsert"]["wall"]) == (2.0, 4.0)
    assert found["checks"] == 6


def test_ratios_are_to_plain_parquet_of_the_same_pyspark() -> None:
    from report import table_of
    from workload import median_of

    runs = {"parquet": run(scan_agg=1.0), "parquet-4.0": run(scan_agg=2.0), "delta": run(scan_agg=3.0)}
    rows = table_of({name: median_of([one]) for name, one in runs.items()}).splitlines()
    assert rows[0] == "| step | parquet | parquet-4.0 | delta |"
    assert "| scan_agg | 2 / 1 | 4 / 2 | 6 / 3 (x1.50, 1.50) |" in rows


def test_after_a_compaction_the_ratio_is_to_the_floors_own_scan() -> None:
    from report import table_of
    from workload import median_of

    runs = {"parquet": run(scan_agg=1.0), "lakelog": run(scan_agg_compacted=0.5)}
    rows = table_of({name: median_of([one]) for name, one in runs.items()}).splitlines()
    assert "| scan_agg_compacted | - | 1 / 0.5 (x0.50, 0.50) |" in rows


def test_the_results_of_a_system_before_its_failure_are_reported_with_the_reason() -> None:
    from report import table_of
    from workload import median_of

    failed = {**run(base_load=4.0), "missing": "failed: no space left (done: base_load)"}
    text = table_of({"hudi": median_of([failed])})
    assert "| base_load | 8 / 4 |" in text.splitlines()
    assert "hudi: failed: no space left (done: base_load)" in text.splitlines()


def test_the_floors_come_before_their_systems_once() -> None:
    from workload import with_floors

    assert with_floors(["lakelog", "delta", "iceberg", "paimon"]) == [
        "parquet", "lakelog", "parquet-4.0", "delta", "iceberg", "parquet-3.5", "paimon",
    ]  # fmt: skip
