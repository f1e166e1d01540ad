"""At every storage call of every operation: the process dies after it, or its answer is lost. ``make crash`` tries all
kinds of faults."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crash_points import OPERATIONS, compacted_history, try_operation
from table_world import World

from depth import Depth
from faults import DIE_AFTER, DIE_BEFORE, LOST
from lakelog.filestore.store import FileStore


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_fault_at_any_storage_call_loses_nothing(name: str, depth: Depth) -> None:
    outcome = try_operation(OPERATIONS[name], (DIE_AFTER, LOST), depth.some)
    assert len(outcome.calls) >= 3
    assert outcome.wrong == ()


def remove_in_the_wrong_order(world: World, store: FileStore) -> None:
    """An expiry as it must not be: data files go before the snapshot that names them."""
    oldest, newest = min(store.snapshots.ids()), store.latest_snapshot()
    if newest is None or oldest == newest.id:
        return
    live = {entry.file.file_name for entry in store.live_entries(newest)}
    for entry in store.live_entries(store.snapshot(oldest)):
        if entry.file.file_name not in live:
            store.io.delete(store.paths.data_file(entry.partition, entry.bucket, entry.file))
    store.io.delete(store.paths.snapshot(oldest))


def test_a_planted_fault_is_found() -> None:
    planted = replace(OPERATIONS["expiry"], prepare=compacted_history, act=remove_in_the_wrong_order)
    assert any("missing" in why for why in try_operation(planted, (DIE_BEFORE,)).wrong)
