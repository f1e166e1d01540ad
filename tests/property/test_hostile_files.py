"""No data file ends the process that reads it, or raises what is no error of ours, or takes much memory."""

from __future__ import annotations

import pytest
from hostile_files import FILES, attack, attack_vectors

from depth import DEPTH


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_data_file_is_rows_or_corrupt(name: str) -> None:
    found = attack(name, DEPTH.cases(2_000), DEPTH.seed)
    assert not found.wrong, "\n".join(found.wrong[:5])
    assert found.peak < 512
    assert found.outcomes["done"]


def test_a_hostile_deletion_vector_is_positions_or_corrupt() -> None:
    found = attack_vectors(DEPTH.cases(5_000), DEPTH.seed)
    assert not found.wrong, "\n".join(found.wrong[:5])
