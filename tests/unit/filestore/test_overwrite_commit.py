"""Commits that replace partitions, carry index files, or find that their number was free by expiry only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.errors import CommitConflict, InvalidRequest, NotFound
from lakelog.filestore.commit.request import CommitRequest, IndexChange, Overwrite
from lakelog.filestore.metadata.manifests import DELETION_VECTORS, HASH, IndexManifests
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.manifest import ADD, DeletionVectorRange, IndexManifestEntry
from lakelog.paimon.rows.partition import encode_partition

I = 0  # noqa: E741 - +I
COLUMNS = (("id", "INT NOT NULL"), ("p", "STRING"))
PLACE = (b"\x00" * 12, 0)


def make_partitioned(make_table):
    return make_table(("p", "id"), ("p",), COLUMNS)


def over(table, files: tuple[BucketFiles, ...], *partitions: str | None, user: str | None = None) -> CommitRequest:
    rows = frozenset(encode_partition((p,), table.store.schema) for p in partitions)
    return CommitRequest(user or new_uuid(), 1, "OVERWRITE", files, overwrite=Overwrite(rows if partitions else None))


def test_an_overwrite_replaces_the_rows_of_its_partitions_at_commit_time(make_table) -> None:
    table = make_partitioned(make_table)
    table.insert((I, 1, "a"), (I, 2, "b"))
    staged = table.staged((I, 9, "a"))
    table.insert((I, 3, "a"))
    table.store.commit(over(table, staged, "a"))
    assert table.read() == [{"id": 2, "p": "b"}, {"id": 9, "p": "a"}]
    table.store.commit(over(table, ()))
    assert table.read() == []
    assert table.store.latest_snapshot().total_record_count == 0


def test_only_an_overwrite_may_replace_partitions(make_table) -> None:
    table = make_table()
    with pytest.raises(InvalidRequest, match="OVERWRITE"):
        table.store.commit(CommitRequest("me", 1, "APPEND", overwrite=Overwrite()))


def index_entry(kind: str, name: str, data_file: str | None = None) -> IndexManifestEntry:
    vectors = None if data_file is None else (DeletionVectorRange(data_file, 1, 22, 1),)
    return IndexManifestEntry(ADD, *PLACE, kind, name, 20, 1, vectors)


def index_names(table) -> list[str]:
    found = IndexManifests(table.store.manifests).entries(table.store.latest_snapshot())
    return [e.file_name for e in found]


def test_index_files_are_carried_on_replaced_per_bucket_and_dropped_by_an_overwrite(make_table) -> None:
    table = make_table()
    (files,) = table.staged((I, 1, "a", 1.0))
    data_file = files.new_files[0].file_name
    added = (index_entry(HASH, "h1"), index_entry(DELETION_VECTORS, "d1", data_file))
    table.store.commit(CommitRequest("a", 1, "APPEND", (files,), index=IndexChange(added)))
    assert index_names(table) == ["h1", "d1"]
    table.insert((I, 2, "b", 1.0))
    assert index_names(table) == ["h1", "d1"]
    table.store.commit(CommitRequest("b", 1, "APPEND", index=IndexChange((index_entry(HASH, "h2"),))))
    assert index_names(table) == ["d1", "h2"]
    table.store.commit(CommitRequest("c", 1, "APPEND", index=IndexChange(deleted=frozenset({"d1"}))))
    assert index_names(table) == ["h2"]
    table.store.commit(over(table, ()))
    assert index_names(table) == []


def test_a_deletion_vector_of_a_removed_file_is_a_conflict(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    change = IndexChange((index_entry(DELETION_VECTORS, "d1", "data-gone-0.parquet"),))
    with pytest.raises(CommitConflict, match="data-gone-0"):
        table.store.commit(CommitRequest("a", 1, "OVERWRITE", index=change))


class Between(MemoryFileIO):
    """Runs ``act`` once, before a snapshot is created."""

    def __init__(self, name: str, act) -> None:
        super().__init__(name)
        self.act = act

    def create(self, path: str, data: bytes) -> bool:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().create(path, data)


def commit_through(table, io: FileIO, request: CommitRequest):
    return replace(table.store, io=io).commit(request)


@pytest.mark.parametrize("left", [1, 2])
def test_a_number_that_expiry_freed_is_not_taken(make_table, left: int) -> None:
    name = new_uuid()
    table = make_table(io=MemoryFileIO(name))
    table.insert((I, 1, "a", 1.0))
    staged = table.staged((I, 9, "late", 1.0))

    def others_commit_and_expire() -> None:
        for n in range(2, 6):
            table.insert((I, n, "b", 1.0))
        for n in range(1, 6 - left):
            table.store.io.delete(table.store.paths.snapshot(n))

    done = commit_through(table, Between(name, others_commit_and_expire), CommitRequest("me", 1, "APPEND", staged))
    assert done.id == 6
    assert table.ids() == [1, 2, 3, 4, 5, 9]
    assert sorted(table.store.snapshots.ids()) == list(range(6 - left, 7))


def test_a_number_above_a_rollback_is_not_taken(make_table) -> None:
    name = new_uuid()
    table = make_table(io=MemoryFileIO(name))
    for n in (1, 2, 3):
        table.insert((I, n, "a", 1.0))
    staged = table.staged((I, 9, "late", 1.0))

    def roll_back() -> None:
        for n in (3, 2):
            table.store.io.delete(table.store.paths.snapshot(n))
        table.store.snapshots.write_hint("LATEST", 1)

    done = commit_through(table, Between(name, roll_back), CommitRequest("me", 1, "APPEND", staged))
    assert done.id == 2
    assert table.ids() == [1, 9]


def test_a_number_above_one_that_was_given_away_again_is_not_taken(make_table) -> None:
    name = new_uuid()
    table = make_table(io=MemoryFileIO(name))
    for n in (1, 2, 3):
        table.insert((I, n, "a", 1.0))
    staged = table.staged((I, 9, "late", 1.0))

    def roll_back_and_go_on() -> None:
        for n in (3, 2):
            table.store.io.delete(table.store.paths.snapshot(n))
        table.store.snapshots.write_hint("LATEST", 1)
        for n in (4, 5):
            table.insert((I, n, "other", 1.0))

    done = commit_through(
        table, Between(name, roll_back_and_go_on), CommitRequest("me", 1, "APPEND", staged, first_try=True)
    )
    assert done.id == 4
    assert table.ids() == [1, 4, 5, 9]


def test_the_snapshot_before_may_expire_at_any_time(make_table) -> None:
    name = new_uuid()
    table = make_table(io=MemoryFileIO(name))
    table.insert((I, 1, "a", 1.0))
    staged = table.staged((I, 2, "b", 1.0))

    def expire() -> None:
        table.store.io.delete(table.store.paths.snapshot(1))

    assert commit_through(table, Between(name, expire), CommitRequest("me", 1, "APPEND", staged)).id == 2
    assert table.ids() == [1, 2]


def test_a_commit_restarts_if_expiry_removed_its_base(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    turns: list[int] = []

    def prepare(latest):
        turns.append(latest.id)
        if len(turns) == 1:
            table.insert((I, 2, "b", 1.0))
            raise NotFound("what the first snapshot alone had is gone")
        return {}

    done = table.store.commit(CommitRequest("me", 1, "APPEND", table.staged((I, 3, "c", 1.0)), prepare=prepare))
    assert (turns, done.id) == ([1, 2], 3)
    assert table.ids() == [1, 2, 3]


def test_a_file_that_is_missing_without_another_commit_is_an_error(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))

    def prepare(latest):
        raise NotFound("gone")

    with pytest.raises(NotFound):
        table.store.commit(CommitRequest("me", 1, "APPEND", table.staged((I, 3, "c", 1.0)), prepare=prepare))
