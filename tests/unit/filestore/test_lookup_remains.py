"""What compactions with deletion vectors and changelogs leave behind when they die, lose, or grow old."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from faults import DIE_AFTER, DIE_BEFORE, Died, FaultPlan, FaultyFileIO
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.compaction.planner import CompactionResult
from lakelog.filestore.gc.expiry import Retention
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid

PLACE = (b"\x00" * 12, 0)
I, U, D = 0, 2, 3  # noqa: E741 - row kinds
OPTIONS = {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
OLD = list(range(20))
NEW = [i for i in (*range(20), 30) if i != 7]


@pytest.fixture
def make(make_table) -> Any:
    """Tables with ids 0 to 19 compacted, and a change of 3, 7 and 30 that is not."""

    def made() -> Any:
        table = make_table(**OPTIONS)
        table.insert(*((I, i, "a" * 30, float(i)) for i in OLD))
        table.store.compact(*PLACE)
        table.insert((U, 3, "b", 0.0), (D, 7, "", 0.0), (I, 30, "b", 0.0))
        return table

    return made


def changes_told(store: FileStore) -> int:
    """The number of snapshots with a changelog."""
    latest = store.latest_snapshot()
    return sum(store.snapshot(n).changelog_manifest_list is not None for n in range(1, latest.id + 1))


def request(made: CompactionResult) -> CommitRequest:
    return CommitRequest(new_uuid(), 1, "COMPACT", (made.files,), index=made.index)


def points(make: Any) -> list[tuple[int, str]]:
    """Every call that changes the storage during a compaction."""
    plan = FaultPlan()
    store = make().store
    FileStore(FaultyFileIO(store.io, plan), store.table_path, store.schema).compact(*PLACE)
    return [(call.number, kind) for call in plan.calls for kind in (DIE_BEFORE, DIE_AFTER)]


def test_a_compaction_that_dies_anywhere_has_happened_or_not(make) -> None:
    tried = points(make)
    assert len(tried) > 15
    seen: set[tuple[int, ...]] = set()
    for number, kind in tried:
        table = make()
        plan = FaultPlan({number: kind})
        faulty = FileStore(FaultyFileIO(table.store.io, plan), table.store.table_path, table.store.schema)
        with contextlib.suppress(Died):
            faulty.compact(*PLACE)
        assert plan.hit
        seen.add(tuple(table.ids()))
        table.store.compact(*PLACE)
        assert (table.ids(), changes_told(table.store)) == (NEW, 2)
        table.store.remove_orphans(0)
        table.store.compact(*PLACE, full=True)
        assert table.ids() == NEW
        assert table.store.remove_orphans(0).files == ()
    assert seen == {tuple(OLD), tuple(NEW)}


def test_an_uncommitted_compaction_leaves_only_orphans(make) -> None:
    table = make()
    made = table.store.run_compaction(*PLACE)
    (entry,) = made.index.added
    found = {path.rpartition("/")[2] for path in table.store.remove_orphans(0).files}
    names = [f.file_name for f in (*made.files.new_files, *made.files.changelog_files)]
    assert found == {*names, entry.file_name}
    assert table.ids() == OLD


def test_a_writer_of_level_zero_does_not_disturb_a_compaction(make) -> None:
    table = make()
    made = table.store.run_compaction(*PLACE)
    table.insert((U, 3, "c", 0.0), (I, 7, "back", 0.0))
    table.store.commit(request(made))
    assert table.ids() == NEW
    table.store.compact(*PLACE)
    assert table.ids() == sorted([*NEW, 7])
    assert table.read()[3]["name"] == "c"


def test_expiry_and_rollback_keep_the_vectors_that_are_needed(make) -> None:
    table = make()
    table.store.compact(*PLACE)
    compacted = table.store.latest_snapshot()
    for n in range(4):
        table.insert((U, n, "d", 0.0), (D, 10 + n, "", 0.0))
        table.store.compact(*PLACE)
    left = [i for i in NEW if i not in range(10, 14)]
    assert table.ids() == left
    assert table.ids(snapshot_id=compacted.id) == NEW
    table.store.expire_snapshots(Retention(2, 2, timedelta(0), 100))
    assert table.ids() == left
    assert table.store.remove_orphans(0).files == ()
