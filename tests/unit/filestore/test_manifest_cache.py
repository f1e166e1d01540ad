from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.filestore.metadata import manifests as module
from lakelog.filestore.metadata.manifests import ManifestCache
from lakelog.filestore.skipping.predicate import Compare
from lakelog.filestore.store import FileStore
from lakelog.io.storage.memory import MemoryFileIO

IO = MemoryFileIO("cache")
COLUMNS = (("day", "STRING"), ("id", "INT"), ("name", "STRING"))


def test_it_holds_no_more_than_its_limit_and_forgets_what_was_not_used_for_longest() -> None:
    cache = ManifestCache(limit=100)
    for name in "abc":
        cache.put((IO, name), name, 30)
    assert cache.get((IO, "a")) == "a"
    cache.put((IO, "d"), "d", 30)
    assert [cache.get((IO, name)) for name in "abcd"] == ["a", None, "c", "d"]
    assert cache.size == 90


def test_a_value_that_would_push_out_half_of_the_others_is_not_kept() -> None:
    cache = ManifestCache(limit=100)
    cache.put((IO, "a"), "a", 51)
    assert cache.get((IO, "a")) is None
    assert cache.size == 0


def test_a_value_that_is_put_twice_counts_once() -> None:
    cache = ManifestCache(limit=100)
    cache.put((IO, "a"), "a", 40)
    cache.put((IO, "a"), "a", 40)
    assert cache.size == 40
    cache.clear()
    assert (cache.size, cache.get((IO, "a"))) == (0, None)


def test_threads_leave_its_size_right() -> None:
    cache = ManifestCache(limit=1000)

    def use(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(2000):
            name = str(chance.randrange(60))
            cache.put((IO, name), name, 1 + int(name))
            assert cache.get((IO, name)) in (None, name)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(4)))
    held = [name for name in map(str, range(60)) if cache.get((IO, name)) is not None]
    assert cache.size == sum(1 + int(name) for name in held) <= 1000


class CountingIO(MemoryFileIO):
    """Remembers which manifests were read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seen: list[str] = []

    def read(self, path: str) -> bytes:
        if "/manifest/" in path:
            self.seen.append(path)
        return super().read(path)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> ManifestCache:
    fresh = ManifestCache(limit=1 << 20)
    monkeypatch.setattr(module, "MANIFEST_CACHE", fresh)
    return fresh


def test_the_second_plan_reads_no_manifest_whatever_the_handle(make_table, cache: ManifestCache) -> None:
    io = CountingIO("counted")
    table = make_table(("day", "id"), ("day",), COLUMNS, io=io)
    for day in ("mon", "tue", "wed"):
        table.insert((0, day, 1, "x"))
    cache.clear()
    first = table.store.plan()
    assert len(set(io.seen)) == len(io.seen) == 5
    assert FileStore(io, "/t", table.store.schema).plan() == first
    assert len(io.seen) == 5


def test_a_plan_of_one_partition_reads_only_the_manifests_that_may_have_it(make_table, cache: ManifestCache) -> None:
    io = CountingIO("partitions")
    table = make_table(("day", "id"), ("day",), COLUMNS, io=io)
    for day in ("mon", "tue", "wed"):
        table.insert((0, day, 1, "x"))
    cache.clear()
    (split,) = table.store.plan(filter=Compare("day", "=", "tue"))
    assert len(io.seen) == 3
    cache.clear()
    assert table.store.plan(partitions=[split.partition]) == [split]
    assert len(io.seen) == 6


def test_a_commit_reads_only_the_manifests_of_its_partition(make_table, cache: ManifestCache) -> None:
    io = CountingIO("commits")
    table = make_table(("day", "id"), ("day",), COLUMNS, io=io)
    for day in ("mon", "tue", "wed"):
        table.insert((0, day, 1, "x"))
    cache.clear()
    io.seen.clear()
    table.insert((0, "tue", 3, "z"), first_try=True)
    assert len([path for path in io.seen if "manifest-list" not in path]) == 1


def test_a_manifest_that_does_not_fit_is_read_part_by_part_and_not_kept(
    make_table, cache: ManifestCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(("day", "id"), ("day",), COLUMNS)
    table.insert((0, "mon", 1, "x"), (0, "tue", 1, "y"))
    small = ManifestCache(limit=20)
    monkeypatch.setattr(module, "MANIFEST_CACHE", small)
    assert len(table.read()) == 2
    assert small.size == 0


def test_plans_of_many_threads_are_equal(make_table, cache: ManifestCache) -> None:
    table = make_table(("day", "id"), ("day",), COLUMNS)
    for day in range(12):
        table.insert((0, str(day), 1, "x"))
    expected = table.store.plan()
    cache.clear()
    with ThreadPoolExecutor(8) as threads:
        assert all(found == expected for found in threads.map(lambda _: table.store.plan(), range(16)))


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_by_the_difference_to_the_last_one_is_that_of_an_empty_cache(
    make_table, cache: ManifestCache, seed: int
) -> None:
    table, chance = (
        make_table(("day", "id"), ("day",), COLUMNS, **{"manifest.merge-min-count": "4"}),
        random.Random(seed),
    )
    store = table.store
    filters = (None, Compare("day", "=", "2"), Compare("id", "<", 5))
    for number in range(25):
        if number == 0 or chance.random() < 0.7:
            table.insert((0, str(chance.randrange(3)), chance.randrange(9), "x"))
        elif buckets := store.buckets_to_compact(full=True):
            store.compact(*chance.choice(buckets), full=True)
        newest = store.latest_snapshot().id
        asked = newest if chance.random() < 0.8 else chance.randint(1, newest)
        filter = chance.choice(filters)
        plan = store.plan(asked, filter)
        warm = dict(cache._held)
        cache.clear()
        assert store.plan(asked, filter) == plan
        for key, (value, size) in warm.items():
            cache.put(key, value, size)
