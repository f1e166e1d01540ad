"""Materialized views equal their queries after any history, in their files and in their logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from depth import DEPTH, Depth
from view_world import SHAPES, run


def test_views_equal_their_queries_after_any_history(tmp_path: Path, depth: Depth) -> None:
    """Tables change in every way, views read views, two processes refresh them and are killed."""
    for seed in depth.seeds(20):
        place = tmp_path / str(seed)
        place.mkdir()
        steps = 12 if not DEPTH.is_whole else 30
        assert sum(1 for _ in run(place, seed, steps=steps)), f"seed {seed} checked nothing"


@pytest.mark.parametrize("seed", [7])
def test_histories_that_went_wrong_before(tmp_path: Path, seed: int) -> None:
    """7: a row without a key was added and removed between two refreshes."""
    assert sum(1 for _ in run(tmp_path, seed)) > 0


def test_the_shapes_are_many() -> None:
    assert len(set(SHAPES)) >= 40
