"""Any history over the whole surface: all readings of the table are one, and what a user was promised."""

from __future__ import annotations

import pytest

from depth import Depth
from model.history import Failure, drawn, replayed
from model.shrinking import shrunk


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_every_reading_of_a_history_is_what_the_model_says(depth: Depth, part: int) -> None:
    for number in range(depth.cases(12)):
        seed = depth.seed + 4 * number + part
        found = drawn(seed, 30)
        if isinstance(found, Failure):
            pytest.fail(f"seed {seed}\n{shrunk(found).script}")


def test_a_seed_gives_the_same_steps_again() -> None:
    first, again = drawn(3, 12), drawn(3, 12)
    assert not isinstance(first, Failure)
    assert not isinstance(again, Failure)
    assert first.done == again.done
    assert replayed(again.history) is None
