"""A known fault is still there; when it is mended, its entry goes."""

from __future__ import annotations

import pytest

from model.history import History, replayed
from model.known import KNOWN


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_fault_is_still_there(name: str) -> None:
    known = KNOWN[name]
    assert replayed(History(0, known.table, known.steps)) is not None, "it is mended: remove its entry"
