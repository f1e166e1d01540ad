"""Commits: once, in order, all or nothing, whoever else commits and wherever it breaks."""

from __future__ import annotations

import itertools

import pytest

from faults import KINDS, LATE, LOST, LOST_REQUEST, Died, FaultPlan, FaultyFileIO
from lakelog.errors import CommitConflict, CommitUnknown, Corrupt, InvalidRequest, NotFound, Unavailable
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io.names import new_uuid
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.paimon.metadata.data_file import BucketFiles
from lakelog.paimon.metadata.snapshot import Snapshot

I, D = 0, 3  # noqa: E741 - row kinds
PLACE = (b"\x00" * 12, 0)


def over(store: FileStore, io: FileIO) -> FileStore:
    return FileStore(io, store.table_path, store.schema)


def test_snapshots_count_from_one_and_carry_what_was_given(make_table) -> None:
    table = make_table()
    one = table.insert((I, 1, "a", 1.0), user="me", identifier=4, properties={"a": "b"}, watermark=7)
    two = table.insert((I, 2, "b", 2.0), (D, 1, "a", 1.0), watermark=3)
    assert (one.id, one.commit_user, one.commit_identifier, one.commit_kind) == (1, "me", 4, "APPEND")
    assert (dict(one.properties), one.watermark, one.next_row_id) == ({"a": "b"}, 7, 0)
    assert (two.id, two.properties, two.watermark) == (2, None, 7)
    assert (one.total_record_count, two.delta_record_count, two.total_record_count) == (1, 2, 3)
    assert table.store.snapshots.io.read("/t/snapshot/LATEST") == b"2"
    assert table.store.snapshots.io.read("/t/snapshot/EARLIEST") == b"1"


def test_the_same_commit_again_gives_its_first_snapshot(make_table) -> None:
    table = make_table()
    files = table.staged((I, 1, "a", 1.0))
    request = CommitRequest("me", 1, "APPEND", files)
    first = table.store.commit(request)
    table.insert((I, 2, "b", 2.0))
    assert table.store.commit(request) == first
    assert table.ids() == [1, 2]


def test_an_empty_commit_is_refused_unless_it_is_wanted(make_table) -> None:
    store = make_table().store
    with pytest.raises(InvalidRequest, match="commit 1 of user me has no files"):
        store.commit(CommitRequest("me", 1, "APPEND"))
    with pytest.raises(InvalidRequest, match="unknown commit kind 'UPSERT'"):
        store.commit(CommitRequest("me", 1, "UPSERT", allow_empty=True))
    assert store.commit(CommitRequest("me", 1, "APPEND", allow_empty=True)).total_record_count == 0


def test_properties_are_prepared_from_the_snapshot_they_follow(make_table) -> None:
    table = make_table()
    rounds: list[int] = []

    def prepare(latest: Snapshot | None) -> dict[str, str]:
        rounds.append(latest.id if latest else 0)
        if len(rounds) == 1:
            table.insert((I, 9, "other", 0.0))  # somebody else is faster
        return {"follows": str(rounds[-1])}

    made = table.insert((I, 1, "a", 1.0), prepare=prepare, properties={"kept": "yes"})
    assert rounds == [0, 1]
    assert dict(made.properties) == {"kept": "yes", "follows": "1"}


def test_a_commit_that_is_given_up_in_prepare_leaves_nothing(make_table) -> None:
    table = make_table()

    def prepare(latest: Snapshot | None) -> dict[str, str]:
        raise KeyError("sealed elsewhere")

    mine = table.staged((I, 1, "mine", 1.0))
    table.insert((I, 1, "first", 1.0))
    before = table.store.io.list("/t/bucket-0")
    with pytest.raises(KeyError):
        table.store.commit(CommitRequest("me", 1, "APPEND", mine, prepare=prepare))
    assert table.store.io.list("/t/bucket-0") == before
    assert table.store.latest_snapshot().id == 1


def test_rows_of_the_later_commit_win_even_if_they_were_numbered_first(make_table) -> None:
    table = make_table()
    first = table.staged((I, 1, "early", 1.0), (I, 2, "early", 1.0))
    second = table.staged((I, 1, "late", 2.0))
    assert first[0].new_files[0].min_sequence_number == second[0].new_files[0].min_sequence_number == 0
    table.store.commit(CommitRequest("b", 1, "APPEND", second))
    table.store.commit(CommitRequest("a", 1, "APPEND", first))
    assert [row["name"] for row in table.read()] == ["early", "early"]
    (split,) = table.store.plan()
    assert sorted((f.min_sequence_number, f.max_sequence_number) for f in split.files) == [(0, 0), (1, 2)]


def test_a_missing_file_cannot_be_deleted(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    (live,) = [s.files[0] for s in table.store.plan()]
    replace = (BucketFiles(*PLACE, 1, deleted_files=(live,)),)
    table.store.commit(CommitRequest("a", 1, "COMPACT", replace))
    with pytest.raises(CommitConflict, match="was replaced by another commit"):
        table.store.commit(CommitRequest("b", 1, "COMPACT", replace))
    assert table.store.latest_snapshot().id == 2


def test_two_compactions_of_one_bucket_cannot_both_commit(make_table) -> None:
    table = make_table()
    for name in ("a", "b"):
        table.insert((I, 1, name, 1.0), (I, 2, name, 1.0))
    one = table.store.run_compaction(*PLACE, full=True)
    two = table.store.run_compaction(*PLACE, full=True)
    table.store.commit(CommitRequest("a", 1, "COMPACT", (one.files,)))
    with pytest.raises(CommitConflict):
        table.store.commit(CommitRequest("b", 1, "COMPACT", (two.files,)))
    overlap = BucketFiles(*PLACE, 1, new_files=two.files.new_files)
    with pytest.raises(CommitConflict, match="overlap on level 5"):
        table.store.commit(CommitRequest("c", 1, "COMPACT", (overlap,)))
    assert table.ids() == [1, 2]


def test_another_number_of_buckets_is_a_conflict_but_for_an_overwrite(make_table) -> None:
    table = make_table()
    table.insert((I, 1, "a", 1.0))
    (files,) = table.staged((I, 2, "b", 1.0))
    wrong = BucketFiles(*PLACE, 4, new_files=files.new_files)
    with pytest.raises(CommitConflict, match="1 buckets .* for 4"):
        table.store.commit(CommitRequest("a", 1, "APPEND", (wrong,)))
    live = table.store.plan()[0].files
    overwrite = (BucketFiles(*PLACE, 1, deleted_files=live), wrong)
    table.store.commit(CommitRequest("a", 1, "OVERWRITE", overwrite))
    assert table.ids() == [2]


def test_a_commit_gives_up_after_its_retries(make_table) -> None:
    table = make_table(commit_max_retries="2", commit_min_retry_wait="0 ms", commit_max_retry_wait="0 ms")
    rounds: list[int] = []

    def prepare(latest: Snapshot | None) -> dict[str, str]:
        rounds.append(0)
        table.insert((I, 9, "other", 0.0))
        return {}

    with pytest.raises(CommitConflict, match="lost against other commits 3 times"):
        table.insert((I, 1, "a", 1.0), prepare=prepare)
    assert len(rounds) == 3
    manifests = {status.path.rpartition("/")[2] for status in table.store.io.list("/t/manifest")}
    live = {
        name
        for snapshot in table.store.snapshots.backwards()
        for name in (
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            *(m.file_name for m in table.store.manifests.manifests_of(snapshot)),
        )
    }
    assert manifests == live  # lost rounds leave no manifests behind
    data_files = {status.path.rpartition("/")[2] for status in table.store.io.list("/t/bucket-0")}
    named = {e.file.file_name for e in table.store.live_entries(table.store.latest_snapshot())}
    assert len(data_files - named) == 1  # the caller's file, and no renumbered copy of it


@pytest.mark.parametrize("kind", KINDS)
def test_a_commit_that_goes_wrong_at_any_call_has_happened_or_not(make_table, kind: str) -> None:
    request, outcomes = None, []
    for number in itertools.count(1):
        table = make_table(io=MemoryFileIO(new_uuid()))
        table.insert((I, 1, "a", 1.0))
        request = CommitRequest("me", 1, "APPEND", table.staged((I, 2, "b", 2.0), (D, 1, "a", 1.0)))
        plan = FaultPlan({number: kind})
        try:
            done = over(table.store, FaultyFileIO(table.store.io.inner, plan)).commit(request)
        except (Died, Unavailable, CommitUnknown):
            done = None
        if not plan.hit:
            break
        assert table.ids() in ([1], [2])
        assert done is None or (done.id, table.ids()) == (2, [2])
        outcomes.append(table.ids())
        plan.arrive()
        table.store.commit(request)  # the next process tries the same commit again: it is there once
        assert (table.ids(), table.store.latest_snapshot().id) == ([2], 2)
    assert len(outcomes) >= 5
    assert [1] in outcomes or kind in (LOST, LOST_REQUEST, LATE)
    assert [2] in outcomes


class NeverSure(MemoryFileIO):
    def create(self, path: str, data: bytes) -> bool:
        raise CommitUnknown(path)


def test_an_unknown_outcome_is_reported_and_keeps_its_manifests(make_table) -> None:
    name = new_uuid()
    table = make_table(io=MemoryFileIO(name))
    files = table.staged((I, 1, "a", 1.0))
    with pytest.raises(CommitUnknown):
        over(table.store, NeverSure(name)).commit(CommitRequest("me", 1, "APPEND", files))
    assert len(table.store.io.list("/t/manifest")) == 3


def test_a_newest_snapshot_whose_file_is_gone_is_an_error_and_never_an_older_state(make_table) -> None:
    table = make_table()
    for n in range(3):
        table.insert((I, n, "a", 1.0))
    table.store.io.delete("/t/snapshot/snapshot-3")
    for use in (table.read, table.store.latest_snapshot, lambda: table.insert((I, 3, "a", 1.0))):
        with pytest.raises(Corrupt, match="snapshot 3, and the newest file is of 2"):
            use()
    table.store.io.delete("/t/snapshot/LATEST")
    assert table.store.latest_snapshot().id == 2


def test_a_hint_that_is_old_or_wrong_hides_no_snapshot(make_table) -> None:
    table = make_table()
    for n in range(3):
        table.insert((I, n, "a", 1.0))
    io = table.store.io
    for hint in (b"1", b"x", b""):
        io.write("/t/snapshot/LATEST", hint)
        assert table.store.latest_snapshot().id == 3
    io.delete("/t/snapshot/LATEST")
    io.delete("/t/snapshot/EARLIEST")
    assert (table.store.latest_snapshot().id, table.store.earliest_snapshot_id()) == (3, 1)
    io.delete("/t/snapshot/snapshot-1")
    assert table.store.earliest_snapshot_id() == 2
    assert [s.id for s in table.store.snapshots.backwards()] == [3, 2]
    with pytest.raises(NotFound):
        table.store.snapshot(1)


def test_commits_are_found_by_user_and_identifier(make_table) -> None:
    table = make_table()
    for n in range(4):
        table.insert((I, n, "a", 1.0), user="ab"[n % 2], identifier=n)
    find = table.store.snapshots.find
    assert find("a", 2).id == 3
    assert find("b", 1, "APPEND").id == 2
    assert find("b", 1, "COMPACT") is None
    assert find("b", 2) is None
    assert find("a", 0, after=1) is None


def test_changed_manifests_above_the_threshold_are_rewritten_to_their_live_entries(make_table) -> None:
    table = make_table(manifest_full_compaction_threshold_size="1 b")
    for n in range(6):
        table.insert((I, n, str(n), float(n)))
    table.store.compact(*PLACE, full=True)
    latest = table.insert((I, 9, "9", 9.0))
    base = table.store.manifests.read_list(latest.base_manifest_list)
    assert sum(m.num_added_files for m in base) == 1
    assert sum(m.num_deleted_files for m in base) == 0
    assert table.ids() == [*range(6), 9]
