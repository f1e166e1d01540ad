from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from lakelog.errors import InvalidOption
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.gc.expiry import Retention, pick_end
from lakelog.filestore.store import FileStore
from lakelog.paimon.metadata.manifest import ADD

HOUR = timedelta(hours=1)
NOW = 100 * 3_600_000


def at_hours(*hours: int):
    """Commit times of snapshots 1, 2, …"""
    return lambda i: hours[i - 1] * 3_600_000 if i <= len(hours) else None


@pytest.mark.parametrize(
    ("keep", "hours", "want"),
    [
        (Retention(2, 9, HOUR, 50), (90, 91, 92, 93), 3),  # the smallest number stays, however old
        (Retention(1, 9, HOUR, 50), (90, 91, 100, 100), 2),  # 2 goes only when 3 is old
        (Retention(1, 9, HOUR, 50), (100, 100, 100, 100), 1),
        (Retention(1, 2, HOUR, 50), (100, 100, 100, 100), 3),  # more than the largest number go, however young
        (Retention(1, 9, HOUR, 2), (90, 90, 90, 90), 3),  # not more than the limit at once
        (Retention(4, 9, HOUR, 50), (90, 90, 90, 90), 1),
        (Retention(1, 1, HOUR, 50), (90, 90, 90, 90), 4),  # the newest stays
    ],
)
def test_which_snapshots_go(keep: Retention, hours: tuple[int, ...], want: int) -> None:
    assert pick_end(1, 4, at_hours(*hours), keep, NOW) == want


def test_a_consumer_keeps_what_it_has_still_to_read() -> None:
    assert pick_end(1, 4, at_hours(90, 90, 90, 90), Retention(1, 9, HOUR, 50), NOW, limit=2) == 2


@pytest.mark.parametrize(("smallest", "largest"), [(0, 5), (3, 2)])
def test_numbers_that_cannot_be(smallest: int, largest: int) -> None:
    with pytest.raises(InvalidOption):
        Retention(smallest, largest, HOUR, 50)


def keep(number: int) -> Retention:
    return Retention(1, number, HOUR, 50)


def test_a_consumer_and_keep_from_hold_expiry_back(make_table) -> None:
    table = make_table()
    for number in range(5):
        table.insert((0, number, "a", 1.0))
    table.store.consumers.record("c", 3)
    assert table.store.expire_snapshots(keep(1)) == [1, 2]
    table.store.consumers.record("c", 5)
    assert table.store.expire_snapshots(keep(1), lambda: 4) == [3]
    table.store.consumers.delete("c")
    assert table.store.expire_snapshots(keep(1)) == [4]
    assert table.ids() == [0, 1, 2, 3, 4]
    assert table.store.earliest_snapshot_id() == 5


def test_extra_files_go_with_their_data_file(make_table) -> None:
    table = make_table()
    files = table.staged((0, 1, "a", 1.0))
    data = files[0].new_files[0]
    path = table.store.paths.bucket_dir(b"\x00" * 12, 0) + f"/{data.file_name}.index"
    table.store.io.write(path, b"index")
    named = replace(files[0], new_files=(replace(data, extra_files=(f"{data.file_name}.index",)),))
    table.store.commit(_request(named))
    table.insert((0, 2, "b", 1.0))
    table.store.compact(b"\x00" * 12, 0, full=True)
    assert table.store.io.exists(path)
    table.store.expire_snapshots(keep(1))
    assert not table.store.io.exists(path)
    assert table.ids() == [1, 2]


def _request(files):
    return CommitRequest("u", 1, "APPEND", (files,))


def test_a_changelog_outlives_its_snapshot_when_the_options_say_so(make_table) -> None:
    table = make_table()
    options = {**table.store.schema.options, "changelog.num-retained.max": "3", "changelog.num-retained.min": "1"}
    options |= {"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"}
    store = FileStore(table.store.io, table.store.table_path, replace(table.store.schema, options=options))
    for number in range(4):
        table.insert((0, number, "a", 1.0))
    table.store.compact(b"\x00" * 12, 0, full=True)
    assert store.expire_snapshots() == [1, 2, 3, 4]
    # of a table without a producer the changelog is what each snapshot added
    held = store.references.changelogs()
    assert [root.snapshot.id for root in held] == [3, 4]
    added = [e for e in store.manifests.delta(held[0].snapshot) if e.kind == ADD]
    assert all(store.io.exists(path) for e in added for path in store.references.entry_files(e))
    assert store.remove_orphans(0).files == ()
    assert table.ids() == [0, 1, 2, 3]


def test_commits_and_expiry_at_the_same_time_lose_nothing(make_table) -> None:
    table = make_table()
    failures: list[BaseException] = []

    def expire_all_the_time(stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                table.store.expire_snapshots(keep(2))
        except BaseException as failure:
            failures.append(failure)

    stop = threading.Event()
    helpers = [threading.Thread(target=expire_all_the_time, args=(stop,)) for _ in range(2)]
    for helper in helpers:
        helper.start()
    for number in range(20):
        table.insert((0, number, "a", 1.0))
    stop.set()
    for helper in helpers:
        helper.join()
    assert not failures
    assert table.ids() == list(range(20))
    table.store.expire_snapshots(keep(1))
    assert table.store.snapshots.ids() == [20]
    assert table.store.remove_orphans(0).files == ()
