"""Every storage call of expiry, rollback, tags, branches and orphan cleaning: the process dies after it.

Dying before a call leaves what dying after the one before it leaves.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest
from history_world import MAIN, World

from depth import Depth
from faults import DIE_AFTER, Died, FaultPlan, FaultyFileIO
from lakelog.errors import AlreadyExists, NotFound

Change = Callable[[World, FaultyFileIO | None], None]


def grown() -> World:
    """A table with some history: compactions, an overwrite, tags, a branch that went its own way, an orphan."""
    world = World.make(num_sorted_run__compaction_trigger="2")
    world.write({1: "a", 2: "b"})
    world.write({2: "c", 3: "d"})
    world.tag("old", 2)
    world.compact()
    world.tag("base", 3)
    world.branch("dev", "base")
    world.write({4: "e", 1: None})
    world.write({5: "f"})
    world.write({9: "dev"}, "dev")
    world.compact("dev")
    world.compact()
    world.tag("new", 6)
    world.write({7: "g"}, overwrite=True)
    world.write({8: "h"})
    return world


def expired(world: World) -> None:
    """Leaves main its newest snapshot only."""
    world.expire(1)


CHANGES: dict[str, tuple[Callable[[World], None], Change]] = {
    "expire": (lambda w: None, lambda w, io: w.expire(2, io=io)),
    "expire a branch": (lambda w: None, lambda w, io: w.expire(1, "dev", io=io)),
    "roll back": (lambda w: None, lambda w, io: w.rollback(4, io=io)),
    "roll back to a tag": (lambda w: None, lambda w, io: w.rollback_to_tag("base", io=io)),
    "roll back to an expired tag": (expired, lambda w, io: w.rollback_to_tag("base", io=io)),
    "create a tag": (lambda w: None, lambda w, io: w.tag("more", 5, io=io)),
    "delete a tag": (expired, lambda w, io: w.delete_tag("new", io=io)),
    "create a branch": (expired, lambda w, io: w.branch("test", "old", io=io)),
    "delete a branch": (lambda w: w.delete_tag("base"), lambda w, io: w.delete_branch("dev", io=io)),
    "fast-forward": (lambda w: None, lambda w, io: w.fast_forward("dev", io=io)),
    "fast-forward over an expired beginning": (expired, lambda w, io: w.fast_forward("dev", io=io)),
    "clean": (lambda w: orphans(w), lambda w, io: w.clean(io=io)),
}


def orphans(world: World) -> None:
    """Leaves what a killed writer and a killed commit leave."""
    for name, (data, _) in list(world.io._store.files.items()):
        if name.endswith("-0.parquet") or "/manifest-" in name:
            directory, _, last = name.rpartition("/")
            world.io.write(directory + "/" + re.sub(r"-0(?=[.]|$)", "-77", last), data)


def again(world: World, change: Change, done: World) -> None:
    """The same change once more; it may answer that it was done already. A commit is not made twice."""
    newest = max(done.model.snapshots[MAIN])
    if newest in world.model.snapshots[MAIN] or not world.store().snapshots.exists(newest):
        with contextlib.suppress(NotFound, AlreadyExists):
            change(world, None)
    world.model = done.twin().model


@pytest.mark.parametrize("name", CHANGES)
def test_a_death_at_any_storage_call_loses_nothing_and_leaks_nothing(name: str, depth: Depth) -> None:
    prepare, change = CHANGES[name]
    whole = grown()
    prepare(whole)
    done, counted = whole.twin(), FaultPlan()
    change(done, FaultyFileIO(done.io, counted))
    done.check()
    assert counted.calls
    for call in depth.some(counted.calls):
        world = whole.twin()
        with pytest.raises(Died):
            change(world, FaultyFileIO(world.io, FaultPlan({call.number: DIE_AFTER})))
        world.check_half_done(whole.model, done.model)
        again(world, change, done)
        world.check_names()
        world.clean()
        world.check()
        world.check_no_leak()
