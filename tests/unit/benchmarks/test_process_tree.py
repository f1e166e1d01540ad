"""CPU time of a process tree, also of processes that nobody waits for."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))


def test_cpu_of_an_interval_is_the_difference_of_the_samples() -> None:
    from process_tree import MemorySampler

    sampler = MemorySampler(1, cpu=[(1.0, 2.0), (2.0, 2.5), (3.0, 4.0)])
    assert sampler.cpu_between(1.5, 3.5) == 2.0
    assert sampler.cpu_between(0.0, 2.0) == 2.5


def test_a_process_that_was_lost_does_not_make_a_step_cheaper() -> None:
    from process_tree import MemorySampler
    from workload import _measurements

    sampler = MemorySampler(1, samples=[(1.5, 100.0)], cpu=[(1.0, 2.0), (2.0, 5.0)])
    lines = [{"step": "upsert", "wall": 1.0, "cpu": cpu, "begin": 1.0, "end": 2.0} for cpu in (-2.6, 2.9)]
    assert _measurements(lines, sampler)["steps"]["upsert"]["cpu"] == [3.0, 2.9]
