"""Compactions of many buckets: what is planned, run, committed in groups, lost, waited for and told."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakelog.errors import InvalidRequest, InvalidSchema, NotFound, Unavailable
from lakelog.filestore.metadata.levels import APART
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.data_file import DataFileMeta
from lakelog.table.maintenance import after_write as maintenance
from lakelog.table.maintenance import compaction_commit as compaction_commits
from lakelog.table.maintenance import compaction_job
from lakelog.table.maintenance.compaction_job import compact_table
from lakelog.table.maintenance.compaction_schedule import FULL_MARK
from lakelog.table.maintenance.compaction_task import (
    BucketOutcome,
    BucketTask,
    LocalExecutor,
    bucket_task,
    compact_bucket,
    leases_of,
    pack_tasks,
    plan_tasks,
    runs_of,
)
from lakelog.table.model.dynamic_table import DynamicTable


def make(lake, options: str = "'bucket' = '3', 'write-only' = 'true'", writes: int = 3):
    lake.sql(
        f"create table db.t (p string, id int, name string, primary key (p, id)) using lakelog partitioned by (p) "
        f"tblproperties ({options})"
    )
    for number in range(writes):
        add(lake.table("db.t"), f"n{number}")
    return lake.table("db.t")


def add(table, name: str, parts: Sequence[str] = ("a", "b")) -> None:
    with table.writer() as writer:
        ids = pa.array(range(40), pa.int32())
        writer.write(pa.table({"p": [parts[i % len(parts)] for i in range(40)], "id": ids, "name": [name] * 40}))


def levels(table) -> list[int]:
    return sorted(e.file.level for e in table.logical.store.live_entries(table.latest_snapshot()))


def data_files(table) -> int:
    return len(list(table.logical.io.list(f"{table.path}/p=a/bucket-0")))


def leases(table: DynamicTable) -> int:
    return len(table.io.list(table.store.paths.compaction_leases))


def task(size: int) -> BucketTask:
    return BucketTask(b"", size, True, 1, size)


def test_small_tasks_share_a_pack_and_large_ones_have_their_own() -> None:
    def sizes(given: list[int], slots: int) -> list[list[int]]:
        return [[t.size for t in pack] for pack in pack_tasks([task(size) for size in given], slots)]

    assert sizes([], 2) == []
    assert sizes([5], 2) == [[5]]
    assert sizes([1, 100, 50, 2, 3], 1) == [[100], [50], [3, 2, 1]]
    assert sizes([10] * 8, 1) == [[10, 10]] * 4
    assert sizes([10] * 8, 2) == [[10]] * 8
    assert sizes([200 << 20] * 2, 1) == [[200 << 20]] * 2


def test_the_runs_of_a_bucket() -> None:
    assert runs_of([]) == 0
    assert runs_of([DataFileMeta(f"f{level}", 1, 1, level=level) for level in (0, 0, 4, 5, 5)]) == 4
    assert runs_of([DataFileMeta(f"data-1{APART}-0", 1, 1)]) == 0


def test_all_buckets_become_one_run_in_one_snapshot_that_says_so(lake) -> None:
    table = make(lake)
    told: list[tuple[int, int]] = []
    done = table.compact(progress=lambda *counts: told.append(counts))
    assert (done.buckets, done.files_before, done.files_after, done.busy, done.lost) == (6, 18, 6, 0, 0)
    assert done.bytes_before > done.bytes_after > 0
    assert told[-1] == (6, 6)
    assert [s.commit_kind for s in done.snapshots] == ["COMPACT"]
    assert done.snapshot.properties[FULL_MARK] == "true"
    assert (levels(table), leases(table.logical)) == ([5] * 6, 0)
    again = table.compact()
    assert (bool(again), again.snapshot, again.buckets) == (False, None, 0)


def test_partitions_are_chosen_by_values_and_by_a_condition(lake) -> None:
    table = make(lake)
    done = table.compact(partitions=[{"p": "a"}])
    assert (done.buckets, FULL_MARK in (done.snapshot.properties or {})) == (3, False)
    assert table.compact(where="p = 'a'").buckets == 0
    (answer,) = lake.sql("CALL sys.compact('db.t', partitions => 'p=a;p=b', where => \"p > 'a'\")").to_pylist()
    assert (answer["buckets"], answer["files_before"], answer["files_after"]) == (3, 9, 3)
    for wrong, error in (
        ({"partitions": [{"p": "z"}]}, NotFound),
        ({"partitions": [{"id": 1}]}, InvalidSchema),
        ({"where": "id = 1"}, InvalidRequest),
    ):
        with pytest.raises(error):
            table.compact(**wrong)
    with pytest.raises(InvalidRequest, match="write partitions like"):
        lake.sql("CALL sys.compact('db.t', partitions => 'a')")
    with pytest.raises(InvalidRequest, match="write 'full' or 'minor'"):
        lake.sql("CALL sys.compact('db.t', compact_strategy => 'most')")
    (minor,) = lake.sql("CALL sys.compact('db.t', compact_strategy => 'minor')").to_pylist()
    assert (minor["snapshot_id"], minor["buckets"]) == (None, 0)


def test_a_minor_compaction_takes_the_buckets_with_most_runs_first(lake) -> None:
    table = make(lake, "'bucket' = '1', 'write-only' = 'true', 'num-sorted-run.compaction-trigger' = '3'", writes=2)
    for _ in range(3):
        add(table, "more", ["b"])
    add(table, "last", ["a"])
    assert [t.runs for t in plan_tasks(table.logical, full=False)] == [5, 3]
    assert table.compact(full=False).buckets == 2


INDEXED = "'file-index.bloom-filter.columns' = 'name', 'file-index.in-manifest-threshold' = '1 b'"


@pytest.mark.parametrize(("more", "files_made"), [("", 1), (f", {INDEXED}", 2)], ids=["plain", "with file indexes"])
def test_a_conflict_costs_the_bucket_that_has_it_and_leaves_no_files(lake, more, files_made) -> None:
    table = make(lake, f"'bucket' = '3', 'write-only' = 'true'{more}")
    files = data_files(table)
    tasks = plan_tasks(table.logical, full=True)
    first = next(t for t in tasks if (t.bucket, b"a" in t.partition) == (0, True))

    class Beaten(LocalExecutor):
        def run(self, given: DynamicTable, tasks: Sequence[BucketTask]) -> list[BucketOutcome]:
            outcomes = super().run(given, tasks)
            if tasks[0] == first and outcomes[0].result is not None:
                assert given.store.compact(*first.bucket_key, full=True) is not None
            return outcomes

    done = compact_table(table.logical, executor=Beaten())
    assert (done.buckets, done.lost, len(done.snapshots)) == (5, 0, 5)  # the second time nothing was left to do
    assert all(FULL_MARK not in (s.properties or {}) for s in done.snapshots)
    assert (levels(table), leases(table.logical)) == ([5] * 6, 0)
    assert data_files(table) == files + files_made  # only what the faster one has made


def test_a_full_compaction_waits_for_another_compactor_and_a_minor_one_does_not(lake, monkeypatch) -> None:
    table = make(lake, "'bucket' = '1', 'write-only' = 'true', 'num-sorted-run.compaction-trigger' = '2'")
    dynamic = table.logical
    held = leases_of(dynamic).take(bucket_task(*plan_tasks(dynamic, full=True)[0].bucket_key))
    minor = table.compact(full=False)
    assert (minor.buckets, minor.busy) == (1, 1)
    waits: list[float] = []

    def given_back(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            leases_of(dynamic).release(held)

    monkeypatch.setattr(compaction_job, "sleep", given_back)
    full = table.compact()
    assert (full.buckets, full.busy, len(waits)) == (1, 0, 2)
    assert full.snapshot.properties[FULL_MARK] == "true"


def test_a_compactor_that_never_gives_back_is_left_alone_in_the_end(lake, monkeypatch) -> None:
    table = make(lake, "'bucket' = '1', 'write-only' = 'true'")
    dynamic = table.logical
    assert leases_of(dynamic).take(bucket_task(*plan_tasks(dynamic, full=True)[0].bucket_key))
    monkeypatch.setattr(compaction_job, "DURATION_MS", 0)
    done = table.compact()
    assert (done.buckets, done.busy, FULL_MARK in (done.snapshot.properties or {})) == (1, 1, False)


@pytest.mark.parametrize("slots", [1, 2])
def test_what_is_done_before_a_failure_is_committed_and_leases_are_given_back(lake, monkeypatch, slots: int) -> None:
    table = make(lake)
    run, lock, calls = FileStore.run_compaction, threading.Lock(), []

    def failing(store, *given, **named):
        with lock:
            calls.append(given)
            if len(calls) == 3:
                raise Unavailable("no storage")
        return run(store, *given, **named)

    monkeypatch.setattr(FileStore, "run_compaction", failing)
    with pytest.raises(Unavailable, match="no storage"):
        compact_table(table.logical, executor=LocalExecutor(slots))
    assert levels(table).count(5) >= 2
    assert leases(table.logical) == 0
    monkeypatch.undo()
    table.compact()
    assert levels(table) == [5] * 6


def test_long_compactions_are_committed_group_by_group(lake, monkeypatch) -> None:
    table = make(lake)
    monkeypatch.setattr(compaction_commits, "GROUP_S", 0.0)
    done = compact_table(table.logical, executor=LocalExecutor())
    assert (done.buckets, len(done.snapshots)) == (6, 6)
    assert [FULL_MARK in (s.properties or {}) for s in done.snapshots] == [False] * 5 + [True]


def test_files_that_another_compactor_and_expiry_have_removed_are_lost_not_an_error(lake, monkeypatch) -> None:
    table = make(lake, "'bucket' = '1', 'write-only' = 'true'")
    dynamic = table.logical
    (first, *_) = plan_tasks(dynamic, full=True)
    run = FileStore.run_compaction

    def late(store, *given, **named):
        monkeypatch.setattr(FileStore, "run_compaction", run)
        store.compact(*first.bucket_key, full=True)
        raise NotFound("a file has gone")

    monkeypatch.setattr(FileStore, "run_compaction", late)
    assert compact_bucket(dynamic, first) == BucketOutcome(first, lost=True)
    monkeypatch.setattr(FileStore, "run_compaction", lambda *given, **named: (_ for _ in ()).throw(NotFound("gone")))
    with pytest.raises(NotFound, match="gone"):  # nobody has committed: the table is damaged
        compact_bucket(dynamic, first)
    assert leases(dynamic) == 0


def test_a_batch_write_compacts_fully_when_the_table_asks_for_it(lake) -> None:
    table = make(lake, "'bucket' = '1', 'full-compaction.delta-commits' = '5'", writes=1)
    assert levels(table) == [5, 5]


@pytest.mark.parametrize(("wait", "expected"), [("true", []), ("false", [0, 0])])
def test_rows_of_a_first_row_table_are_visible_at_once_unless_lookup_wait_is_off(
    lake, wait: str, expected: list[int]
) -> None:
    options = f"'bucket' = '1', 'merge-engine' = 'first-row', 'lookup-wait' = '{wait}'"
    table = make(lake, options, writes=1)
    assert [level for level in levels(table) if level == 0] == expected
    assert table.scan().to_arrow().num_rows == (0 if expected else 40)
    for number in range(4):
        add(table, f"m{number}")
    assert table.scan().to_arrow().num_rows == 40
    assert set(table.scan().to_arrow()["name"].to_pylist()) == {"n0"}


def test_a_batch_write_waits_for_the_compactor_that_has_its_new_rows(lake, monkeypatch) -> None:
    table = make(lake, "'bucket' = '1', 'deletion-vectors.enabled' = 'true'", writes=1)
    dynamic = table.logical
    bucket_key = dynamic.store.live_entries(table.latest_snapshot())[0]
    held = leases_of(dynamic).take(bucket_task(bucket_key.partition, bucket_key.bucket))
    waits: list[float] = []

    def given_back(seconds: float) -> None:
        waits.append(seconds)
        leases_of(dynamic).release(held)

    monkeypatch.setattr(maintenance, "sleep", given_back)
    add(table, "new")
    assert (len(waits), set(table.scan().to_arrow()["name"].to_pylist())) == (1, {"new"})
