"""What changes amount to: by key, added up, and checked one by one (every row that goes is the last one that came)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

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


def newest(batches: Iterable[pa.RecordBatch], *key: str) -> dict[Any, dict[str, Any]]:
    """The rows of a reader by key (``id``, or these columns) after some batches of changes: key → row."""
    state: dict[Any, dict[str, Any]] = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        at = tuple(row[name] for name in key) if len(key) > 1 else row[key[0] if key else "id"]
        state.pop(at, None)
        if row.pop("_row_kind") in ("+I", "+U"):
            state[at] = row
    return state


def added_up(batches: Iterable[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """The rows of a reader that adds changes up: row → how often it is there, where that is not zero."""
    net: Counter[tuple[Any, ...]] = Counter()
    for row in (row for batch in batches for row in batch.to_pylist()):
        sign = 1 if row.pop("_row_kind") in ("+I", "+U") else -1
        net[tuple(row.values())] += sign
    return Counter({row: count for row, count in net.items() if count})
