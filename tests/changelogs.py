"""Checks of a whole changelog: every row that goes is the last one that came for its key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Change = Mapping[str, Any]


def folded(changes: Iterable[Change], key: str = "id") -> dict[Any, dict[str, Any]]:
    """What the changes amount to; fails at one that does not follow from those before it."""
    state: dict[Any, dict[str, Any]] = {}
    open_update: Any = None
    for change in changes:
        row = {name: value for name, value in change.items() if name != "_row_kind"}
        kind, at = change["_row_kind"], row[key]
        assert (kind == "+U") == (open_update is not None), f"{change}: -U and +U come in pairs"
        if kind in ("-U", "-D"):
            assert state.pop(at, None) == row, f"{change} takes back a row that is not there"
            open_update = at if kind == "-U" else None
        else:
            assert at not in state, f"{change} comes on top of {state.get(at)}"
            assert kind == "+I" or open_update == at
            state[at], open_update = row, None
    assert open_update is None
    return state
