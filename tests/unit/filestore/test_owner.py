"""Tables whose snapshots somebody else makes visible: commits, lost answers, and what is left to the owner."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakelog.errors import AlreadyExists, CommitConflict, CommitUnknown, NotFound, UnsupportedFeature
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.gc.expiry import Retention
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.io.storage.delegating import LockedFileIO, ServerCommittedFileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.io.storage.snapshot_owner import PartitionChange, SnapshotOwner

I = 0  # noqa: E741 - a row kind


@dataclass(frozen=True)
class Keeper(SnapshotOwner):
    """An owner that writes the files in words of its own, and loses answers as it is told."""

    io: MemoryFileIO
    told: list[tuple[str, list[PartitionChange]]] = field(default_factory=list, compare=False)
    events: list[Callable[[], Any]] = field(default_factory=list, compare=False)
    branched: list[tuple[str, str, str | None]] = field(default_factory=list, compare=False)

    def commit(self, branch: str, snapshot: bytes, changes: Sequence[PartitionChange]) -> bool:
        self.told.append((branch, list(changes)))
        if self.events:
            self.events.pop(0)()
        made = self.put(snapshot)
        if self.events:
            self.events.pop(0)()
        return made

    def put(self, snapshot: bytes) -> bool:
        found = json.loads(snapshot)
        path = f"/t/snapshot/snapshot-{found['id']}"
        return self.io.create(path, json.dumps({"kept": 1, **dict(reversed(found.items()))}).encode())

    def create_branch(self, name: str, tag: str | None) -> None:
        self.branched.append(("create", name, tag))

    def drop_branch(self, name: str) -> None:
        self.branched.append(("drop", name, None))


@pytest.fixture
def keeper() -> Keeper:
    return Keeper(MemoryFileIO(new_uuid()))


@pytest.fixture
def table(make_table, keeper: Keeper):
    return make_table(
        io=ServerCommittedFileIO(keeper.io, keeper), commit_min_retry_wait="1 ms", commit_max_retry_wait="1 ms"
    )


def lose() -> None:
    raise CommitUnknown("the answer was lost")


def test_the_owner_creates_the_snapshots_and_gets_the_partition_statistics(make_table, keeper: Keeper) -> None:
    started = clock.now_ms()
    columns = (("id", "INT NOT NULL"), ("day", "DATE NOT NULL"), ("name", "STRING"))
    table = make_table(("id", "day"), ("day",), columns, io=ServerCommittedFileIO(keeper.io, keeper), bucket="2")
    one, two = dt.date(2024, 2, 29), dt.date(2024, 3, 1)
    table.insert((I, 1, one, "a"), (I, 2, one, "b"), (I, 3, two, "c"))
    assert table.ids() == [1, 2, 3]
    [(branch, changes)] = keeper.told
    by_day = {change.spec["day"]: change for change in changes}
    assert branch == "main"
    assert set(by_day) == {"19782", "19783"}, "days, as in the directories"
    live = table.store.live_entries(table.store.latest_snapshot())
    assert [(c.rows, c.buckets) for c in by_day.values()] == [(2, 2), (1, 2)]
    assert sum(c.size for c in changes) == sum(e.file.file_size for e in live)
    assert sum(c.files for c in changes) == len(live)
    assert all(started - 1000 <= c.newest_ms <= clock.now_ms() + 1000 for c in changes)


def test_removed_files_count_negatively(table, keeper: Keeper) -> None:
    table.insert((I, 1, "a", 1.0))
    table.insert((I, 2, "b", 2.0))
    table.store.compact(b"\x00" * 12, 0, full=True)
    [change] = keeper.told[-1][1]
    assert (change.rows, change.files, dict(change.spec)) == (0, -1, {})


def test_a_lost_answer_is_looked_up_in_the_words_of_the_owner(table, keeper: Keeper) -> None:
    keeper.events[:] = [lambda: None, lose]
    snapshot = table.insert((I, 1, "a", 1.0))
    assert (snapshot.id, len(keeper.told), table.ids()) == (1, 1, [1])
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        assert keeper.io.exists(table.store.paths.manifest(name)), "a lost round would have deleted them"


def test_a_request_that_was_lost_is_sent_again(table, keeper: Keeper) -> None:
    keeper.events[:] = [lose]
    assert table.insert((I, 1, "a", 1.0)).id == 1
    assert (len(keeper.told), table.ids()) == (2, [1])


def test_a_number_that_another_commit_has_is_a_lost_race(table, keeper: Keeper) -> None:
    files = table.staged((I, 2, "b", 2.0))
    keeper.events[:] = [lambda: table.insert((I, 1, "a", 1.0))]
    snapshot = table.store.commit(CommitRequest("me", 1, "APPEND", files))
    assert (snapshot.id, table.ids()) == (2, [1, 2])
    files = table.staged((I, 3, "c", 3.0))
    keeper.events[:] = [lambda: (table.insert((I, 4, "d", 4.0)), lose())]
    assert table.store.commit(CommitRequest("me", 2, "APPEND", files)).id == 4
    assert table.ids() == [1, 2, 3, 4]


def test_a_permanently_unknown_outcome_is_reported_and_a_retry_finds_it(table, keeper: Keeper) -> None:
    files = table.staged((I, 1, "a", 1.0))
    request = CommitRequest("me", 1, "APPEND", files)
    keeper.events[:] = [lose, lose, lose]
    with pytest.raises(CommitUnknown, match="commit user me and identifier 1"):
        table.store.commit(request)
    assert table.store.commit(request).id == 1
    assert table.store.commit(request).id == 1 and table.ids() == [1]


def test_what_the_owner_says_is_not_judged_by_its_other_files(table, keeper: Keeper) -> None:
    table.insert((I, 1, "a", 1.0))

    def amend() -> None:
        found = json.loads(keeper.io.read("/t/snapshot/snapshot-1"))
        keeper.io.write("/t/snapshot/snapshot-1", json.dumps({**found, "watermark": 7}).encode())

    keeper.events[:] = [lambda: None, amend]
    assert table.insert((I, 2, "b", 2.0)).id == 2
    assert (len(keeper.told), table.ids()) == (2, [1, 2])


def test_what_the_owner_refuses_is_raised(table, keeper: Keeper) -> None:
    for error in (NotFound, CommitConflict):

        def refuse(error: type[Exception] = error) -> None:
            raise error("the owner says no")

        keeper.events[:] = [refuse]
        with pytest.raises(error, match="the owner says no"):
            table.insert((I, 1, "a", 1.0))
    assert table.store.latest_snapshot() is None


def test_a_rollback_is_a_commit_of_the_owner(table, keeper: Keeper) -> None:
    for number in (1, 2):
        table.insert((I, number, "a", 1.0))
    assert table.store.restore(table.store.snapshot(1)).id == 3
    assert (len(keeper.told), table.ids()) == (3, [1])


def test_branches_are_left_to_the_owner(table, keeper: Keeper) -> None:
    table.insert((I, 1, "a", 1.0))
    table.store.tags.create("one")
    branches = table.store.branches
    with pytest.raises(UnsupportedFeature, match="branches of table /t from tags only: .* snapshot 1"):
        branches.create("b", snapshot_id=1)
    branches.create("b", tag="one")
    branches.create("empty")
    assert branches.list() == []  # it has not made them
    with pytest.raises(NotFound):
        branches.delete("b")
    newest, schema = keeper.io.read("/t/snapshot/snapshot-1"), keeper.io.read("/t/schema/schema-0")
    keeper.io.write("/t/branch/branch-b/schema/schema-0", schema)
    keeper.io.write("/t/branch/branch-b/snapshot/snapshot-1", newest)
    with pytest.raises(AlreadyExists):
        branches.create("b", tag="one")
    branches.delete("b")
    assert keeper.branched == [
        ("create", "b", "one"),
        ("create", "empty", None),
        ("drop", "b", None),
    ]


def test_expiry_leaves_what_the_owner_made_last(table) -> None:
    for number in range(1, 4):
        table.insert((I, number, "a", 1.0))
    assert table.store.expire_snapshots(Retention(1, 1, dt.timedelta(0), 9)) == [1, 2]
    assert table.ids() == [1, 2, 3]


def test_a_storage_with_a_lock_has_the_owner_of_the_one_inside(keeper: Keeper) -> None:
    class NoLock:
        pass

    assert keeper.io.snapshot_owner is None
    assert ServerCommittedFileIO(LockedFileIO(keeper.io, NoLock()), keeper).snapshot_owner is keeper
    assert LockedFileIO(ServerCommittedFileIO(keeper.io, keeper), NoLock()).snapshot_owner is keeper
