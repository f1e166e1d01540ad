"""Crash points: at every storage call of every operation that changes a table, the process dies or the call fails.

``python tests/property/crash_points.py`` (``make crash``) tries all of them and prints how many there are.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from table_world import State, World, read, state_after, write_files

from faults import DIE_AFTER, DIE_BEFORE, FAIL_AFTER, FAIL_BEFORE, LATE, LOST, LOST_REQUEST, Call, Died, FaultPlan
from lakelog.errors import LakelogError, NotFound
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.snapshot import COMPACT

KINDS = (DIE_BEFORE, DIE_AFTER, FAIL_BEFORE, FAIL_AFTER, LOST, LOST_REQUEST, LATE)
ROWS = [("a", n, f"old {n}") for n in range(6)] + [("b", n, f"old {n}") for n in range(4)]
NEW = [("a", 1, "new"), ("c", 1, "new"), ("b", 9, None)]
GONE = [("b", 2)]


@dataclass(frozen=True)
class Operation:
    """What is done with a table: ``prepare`` makes its history, ``act`` is tried at every call, and done again after.

    ``after`` gives the rows that the table must have then.
    """

    name: str
    prepare: Callable[[World], None]
    act: Callable[[World, FileStore], object]
    after: Callable[[World], State]


@dataclass(frozen=True)
class Outcome:
    """The tested points and the failures."""

    name: str
    calls: tuple[Call, ...]
    points: int
    wrong: tuple[str, ...]


def history(world: World) -> None:
    """A history of some commits."""
    state: State = {}
    for at in range(3):
        rows = [(p, n, f"{v} {at}") for p, n, v in ROWS[at:]]
        world.upsert(world.store, at, rows)
        state = state_after(state, rows)
        world.record(state)


def compacted_history(world: World) -> None:
    """The same, with a compaction and a delete."""
    history(world)
    world.compact(world.store)
    world.record(world.now)
    world.upsert(world.store, 5, [("a", 0, "again")], [("a", 5)])
    world.record(state_after(world.now, [("a", 0, "again")], [("a", 5)]))


def leftovers(world: World) -> None:
    """The history, and files of a writer that never committed."""
    compacted_history(world)
    write_files(world.store, NEW)


def tagged_history(world: World) -> None:
    """A tag that alone references files, because its snapshot has expired."""
    history(world)
    world.store.tags.create("t", 1)
    world.compact(world.store)
    world.record(world.now)
    world.store.expire_snapshots(Retention(1, 1, timedelta(0), 50))


def delete_tag(store: FileStore) -> None:
    """Deletes the tag, unless a previous run has."""
    with contextlib.suppress(NotFound):
        store.tags.delete("t")


OPERATIONS: dict[str, Operation] = {
    o.name: o
    for o in (
        Operation(
            "first commit",
            lambda world: None,
            lambda world, store: world.upsert(store, 10, NEW),
            lambda world: state_after({}, NEW),
        ),
        Operation(
            "upsert",
            history,
            lambda world, store: world.upsert(store, 10, NEW, GONE),
            lambda world: state_after(world.now, NEW, GONE),
        ),
        Operation(
            "overwrite",
            compacted_history,
            lambda world, store: world.overwrite(store, 10, NEW, ["a", "c", "b"]),
            lambda world: state_after({}, NEW),
        ),
        Operation("compaction", history, lambda world, store: world.compact(store), lambda world: world.now),
        Operation(
            "compaction of manifests",
            compacted_history,
            lambda world, store: store.commit(CommitRequest("m", 1, COMPACT, allow_empty=True, rewrite_manifests=True)),
            lambda world: world.now,
        ),
        Operation(
            "drop of partitions",
            compacted_history,
            lambda world, store: world.overwrite(store, 10, [], ["a"]),
            lambda world: {key: value for key, value in world.now.items() if key[0] != "a"},
        ),
        Operation(
            "expiry",
            compacted_history,
            lambda world, store: store.expire_snapshots(Retention(1, 1, timedelta(0), 50)),
            lambda world: world.now,
        ),
        Operation(
            "rollback",
            compacted_history,
            lambda world, store: store.restore(store.snapshot(2)),
            lambda world: world.states[2],
        ),
        Operation("orphan cleaning", leftovers, lambda world, store: store.remove_orphans(0), lambda world: world.now),
        Operation("deletion of a tag", tagged_history, lambda world, store: delete_tag(store), lambda world: world.now),
    )
}


def try_operation(
    operation: Operation,
    kinds: Sequence[str] = KINDS,
    some: Callable[[Sequence[Call]], Sequence[Call]] = lambda calls: calls,
) -> Outcome:
    """Tests an operation with every kind of fault at each of its calls, or at ``some``."""
    whole = FaultPlan()
    wrong = [f"without a fault: {why}" for why in _try(operation, whole)]
    points = 0
    for call in some(whole.calls):
        for kind in kinds:
            plan = FaultPlan({call.number: kind})
            found = _try(operation, plan)
            points += 1
            wrong += [f"{kind} at call {call.number} ({call.name}): {why}" for why in found]
    return Outcome(operation.name, tuple(whole.calls), points, tuple(wrong))


def _try(operation: Operation, plan: FaultPlan) -> list[str]:
    """The errors after one fault, a check of the table, a retry, and cleaning."""
    world = World.make(num_sorted_run__compaction_trigger="9", changelog_producer="input")
    operation.prepare(world)
    before, after = dict(world.now), operation.after(world)
    with contextlib.suppress(Died, LakelogError):
        operation.act(world, world.broken(plan))
    wrong = []
    plan.arrive()
    if read(world.store) not in (before, after):
        wrong.append("the table is neither as before nor as after")
    operation.act(world, world.store)
    world.record(after)
    try:
        world.check()
    except (AssertionError, LakelogError) as why:
        wrong.append(f"{type(why).__name__} {why}")
    if world.missing():
        wrong.append(f"files are missing: {world.missing()}")
    world.store.remove_orphans(0)
    if world.leaked() or world.missing():
        wrong.append(f"after cleaning: leaked {world.leaked()}, missing {world.missing()}")
    return wrong


def main() -> int:
    """Tests all points and prints a table."""
    total = bad = calls = 0
    for operation in OPERATIONS.values():
        outcome = try_operation(operation)
        total += outcome.points
        bad += len(outcome.wrong)
        calls += len(outcome.calls)
        names = ", ".join(sorted({call.name for call in outcome.calls}))
        print(
            f"{outcome.name:24} {len(outcome.calls):4} calls {outcome.points:5} points "
            f"{len(outcome.wrong):4} wrong   ({names})"
        )
        for line in outcome.wrong[:20]:
            print("    " + line)
    print(f"{len(OPERATIONS)} operations, {calls} calls, {total} points, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
