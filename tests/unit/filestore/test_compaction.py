"""Compaction: what is picked, what comes out, that no row changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.compaction.planner import pick_compaction
from lakelog.filestore.compaction.strategy import lookup_interval, pick_level_zero, pick_runs, pick_small_files
from lakelog.filestore.metadata.levels import SortedRun, has_deletes
from lakelog.filestore.store import FileStore
from lakelog.options.option import Options
from lakelog.paimon.metadata.data_file import DataFileMeta
from unit.filestore.conftest import TestTable

I, U, D = 0, 2, 3  # noqa: E741 - row kinds
PLACE = (b"\x00" * 12, 0)


def runs(*sizes: tuple[int, int]) -> list[SortedRun]:
    return [SortedRun(level, (DataFileMeta(f"f{at}", size, 1),)) for at, (level, size) in enumerate(sizes)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], None),
        ([(0, 1)] * 4, None),
        # the newer runs are more than twice the oldest: all to the top
        ([(0, 10), (0, 10), (0, 10), (0, 10), (5, 10)], (5, 5)),
        ([(0, 10)] * 5, (5, 5)),
        # runs of like size, the large ones stay
        ([(0, 10), (0, 10), (0, 10), (4, 500), (5, 9000)], (3, 3)),
        # nothing of like size: it waits for more runs than the trigger, then takes the newest two, and on to the first
        # run above level 0
        ([(0, 1), (0, 10), (0, 100), (4, 1000), (5, 90000)], None),
        ([(0, 1), (0, 10), (0, 100), (0, 500), (4, 3000), (5, 90000)], (5, 4)),
        ([(0, 1), (2, 10), (3, 200), (4, 1000), (5, 90000)], None),
        ([(0, 1), (1, 10), (2, 30), (3, 200), (4, 1000), (5, 90000)], (2, 1)),
        # one more level-0 run of like size goes with it
        ([(0, 9), (0, 9), (2, 30), (3, 200), (4, 1000), (5, 90000)], (2, 1)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_universal_compaction_picks(given, expected) -> None:
    assert pick_runs(runs(*given), Options()) == expected


def test_a_full_compaction_takes_all_until_one_clean_run_is_left() -> None:
    assert pick_runs(runs((0, 1), (5, 100)), Options(), full=True) == (2, 5)
    clean = SortedRun(5, (DataFileMeta("f", 1, 1, delete_row_count=0),))
    assert pick_runs([clean], Options(), full=True) is None
    assert pick_runs([SortedRun(5, (DataFileMeta("f", 1, 1, delete_row_count=2),))], Options(), full=True) == (1, 5)
    assert pick_runs(runs((0, 1)), Options({"num-levels": "3"}), full=True) == (1, 2)


def test_small_neighbours_of_an_append_table_are_picked() -> None:
    def files(*sizes: int) -> list[DataFileMeta]:
        return [DataFileMeta(f"f{at}", size, 1) for at, size in enumerate(sizes)]

    def names(picked: tuple[DataFileMeta, ...]) -> str:
        return "".join(f.file_name[1:] for f in picked)

    assert names(pick_small_files(files(1, 1, 1, 1), 100, 5)) == ""
    assert names(pick_small_files(files(90, 1, 1, 1, 1, 1, 90, 1), 100, 5)) == "12345"
    assert names(pick_small_files(files(1, 1, 90, 1, 1, 1, 1, 1), 100, 5)) == "34567"
    assert names(pick_small_files(files(1, 1), 100, 5, full=True)) == "01"
    assert names(pick_small_files(files(1), 100, 5, full=True)) == ""
    assert names(pick_small_files(files(*[50] * 6), 100, 2)) == "01"


def test_a_full_compaction_changes_no_row_and_drops_deletes(make_table) -> None:
    table = make_table()
    table.insert(*((I, i, "a", float(i)) for i in range(20)))
    table.insert(*((U, i, "b", float(i)) for i in range(5, 10)), *((D, i, "a", 0.0) for i in range(10, 15)))
    before = table.read()
    snapshot = table.store.compact(*PLACE, full=True, properties={"kept": "yes"})
    assert (snapshot.commit_kind, snapshot.total_record_count) == ("COMPACT", 15)
    assert dict(snapshot.properties) == {"kept": "yes"}
    (split,) = table.store.plan()
    assert (split.needs_merge, [f.level for f in split.files]) == (False, [5])
    assert not has_deletes(split.files[0])
    assert split.files[0].file_source == 1
    assert table.read() == before
    assert table.store.compact(*PLACE, full=True) is None
    assert table.store.max_sequence_numbers(snapshot, {PLACE}) == {PLACE: 24}


def test_deletes_stay_as_long_as_older_rows_are_below(make_table) -> None:
    table = make_table(num_sorted_run_compaction_trigger="2")
    table.insert(*((I, i, "a" * 50, float(i)) for i in range(2000)))
    table.store.compact(*PLACE, full=True)
    table.insert((D, 1, "", 0.0), (I, 5000, "", 0.0))
    table.insert((D, 2, "", 0.0), (I, 5001, "", 0.0))
    changed = table.store.run_compaction(*PLACE)
    assert {f.level for f in changed.files.new_files} == {1}
    assert sum(f.delete_row_count for f in changed.files.new_files) == 2
    table.store.commit(CommitRequest("c", 1, "COMPACT", (changed.files,)))
    assert table.ids() == [0, *range(3, 2000), 5000, 5001]


def test_compactions_keep_the_number_of_runs_at_or_below_the_trigger(make_table) -> None:
    table = make_table()
    for n in range(30):
        table.insert((I, n, str(n), 0.0), (U, n // 2, f"u{n}", 0.0))
        for partition, bucket in table.store.buckets_to_compact():
            table.store.compact(partition, bucket)
        files = [f for s in table.store.plan() for f in s.files]
        assert len({f.file_name if f.level == 0 else f.level for f in files}) <= 5
    assert table.ids() == list(range(30))
    assert table.store.buckets_to_compact() == []


def test_a_large_file_that_needs_no_change_only_changes_its_level(make_table) -> None:
    table = make_table(target_file_size="1 kb")
    table.insert(*((I, i, f"name {i}", float(i)) for i in range(200)))
    table.insert(*((I, i, f"name {i}", float(i)) for i in range(300, 310)))
    names = {f.file_name for s in table.store.plan() for f in s.files}
    changed = table.store.run_compaction(*PLACE, full=True)
    assert {f.file_name for f in changed.files.new_files} == names
    assert {f.level for f in changed.files.new_files} == {5}
    assert {f.level for f in changed.files.deleted_files} == {0}
    table.store.commit(CommitRequest("c", 1, "COMPACT", (changed.files,)))
    assert len(table.ids()) == 210
    assert table.store.compact(*PLACE, full=True) is None


def test_small_files_of_an_append_table_become_one_in_order(make_table) -> None:
    table = make_table(primary_keys=())
    for n in range(6):
        table.insert((I, n, str(n), 0.0), (I, n, str(n), 1.0))
    assert table.store.buckets_to_compact() == [PLACE]
    snapshot = table.store.compact(*PLACE)
    (split,) = table.store.plan()
    (file,) = split.files
    assert (file.level, file.min_sequence_number, file.max_sequence_number, file.row_count) == (0, 0, 11, 12)
    assert snapshot.delta_record_count == 0
    assert [r["id"] for r in table.store.read_table([split]).to_pylist()] == [n for n in range(6) for _ in range(2)]
    assert table.store.compact(*PLACE, full=True) is None


def test_a_bucket_without_files_has_nothing_to_compact(make_table) -> None:
    store = make_table().store
    assert pick_compaction([], store.schema) is None
    assert store.compact(*PLACE) is None
    assert store.buckets_to_compact() == []


@pytest.mark.parametrize(
    ("options", "given", "expected"),
    [
        ({"compaction.total-size-threshold": "1 kb"}, [(0, 1), (5, 900)], (2, 5)),
        ({"compaction.total-size-threshold": "1 kb"}, [(0, 200), (5, 900)], None),
        ({"compaction.incremental-size-threshold": "100 b"}, [(0, 60), (4, 60), (5, 900)], (3, 5)),
        ({"compaction.incremental-size-threshold": "100 b"}, [(0, 60), (4, 30), (5, 900)], None),
        ({"compaction.optimization-interval": "1 s"}, [(0, 1), (5, 900)], (2, 5)),
        ({"compaction.optimization-interval": "1 h"}, [(0, 1), (5, 900)], None),
        ({"compaction.optimization-interval": "1 h"}, [(0, 1), (4, 900)], (2, 5)),
        ({"compaction.optimization-interval": "1 s"}, [(5, 900)], None),
        # the table had more levels once
        ({"num-levels": "3", "compaction.total-size-threshold": "1 kb"}, [(0, 1), (4, 9)], (2, 4)),
    ],
)
def test_early_full_compactions(options, given, expected) -> None:
    made = [SortedRun(r.level, tuple(replace(f, creation_time_ms=NOW - 60_000) for f in r.files)) for r in runs(*given)]
    assert pick_runs(made, Options(options), now_ms=NOW) == expected


NOW = 1_700_000_000_000


def test_level_zero_is_taken_up() -> None:
    assert pick_level_zero(runs((5, 100)), Options()) is None
    assert pick_level_zero(runs((0, 1), (0, 1), (5, 100)), Options()) == (2, 4)
    assert pick_level_zero(runs((0, 1), (0, 1), (3, 3), (5, 100)), Options()) == (2, 2)
    assert pick_level_zero(runs((0, 1), (1, 30), (5, 100)), Options()) == (2, 1)
    assert pick_level_zero(runs((0, 1)), Options()) == (1, 5)


def test_a_gentle_lookup_waits_for_files(make_table) -> None:
    options = {"deletion-vectors.enabled": "true", "lookup-compact": "gentle"}
    assert [lookup_interval(Options({**options, **more})) for more in (
        {}, {"lookup-compact.max-interval": "7"}, {"lookup-compact.max-interval": "2"}, {"lookup-compact": "radical"},
    )] == [10, 7, 5, 1]  # fmt: skip
    table = make_table(num_sorted_run_compaction_trigger="9")
    table = TestTable(FileStore(table.store.io, "/t", replace(table.store.schema, options={
        **table.store.schema.options, **options, "num-sorted-run.compaction-trigger": "3",
        "lookup-compact.max-interval": "4", "compaction.max-size-amplification-percent": "100000",
    })))  # fmt: skip
    table.insert(*((I, i, "a" * 50, 0.0) for i in range(1000)))
    table.store.compact(*PLACE, full=True)
    for n in range(2):
        assert table.store.buckets_to_compact() == []
        table.insert((U, n, "b", 0.0))
    assert table.store.buckets_to_compact() == [PLACE]


def test_a_forced_compaction_writes_every_file_again(make_table) -> None:
    options = {"compaction.force-rewrite-all-files": "true", "target-file-size": "1 kb"}
    table = make_table(**options)
    table.insert(*((I, i, f"name {i}", float(i)) for i in range(200)))
    table.store.compact(*PLACE, full=True)
    before = {e.file.file_name for e in table.store.live_entries(table.store.latest_snapshot())}
    table.store.compact(*PLACE, full=True)
    after = {e.file.file_name for e in table.store.live_entries(table.store.latest_snapshot())}
    assert not before & after
    assert table.ids() == list(range(200))


def test_level_zero_goes_up_when_it_must(make_table) -> None:
    table = make_table(**{"compaction.force-up-level-0": "true"})
    table.insert(*((I, i, "a" * 50, float(i)) for i in range(1000)))
    table.store.compact(*PLACE)
    table.insert((D, 1, "", 0.0))
    table.store.compact(*PLACE)
    assert sorted(e.file.level for e in table.store.live_entries(table.store.latest_snapshot())) == [4, 5]
    assert table.ids() == [0, *range(2, 1000)]
