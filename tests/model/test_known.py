"""A known fault is still there; when it is mended, its entry goes."""

from __future__ import annotations

from model.history import History, replayed
from model.known import KNOWN


def test_a_known_fault_is_still_there() -> None:
    for name, known in KNOWN.items():
        assert replayed(History(0, known.table, known.steps)) is not None, f"{name}: it is mended, remove its entry"
