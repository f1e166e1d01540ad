"""Local copies of files that are looked up: made at the second lookup, bounded, dropped when nobody uses them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakelog.filestore.compaction.lookup_cache import LookupCache
from lakelog.io import clock
from lakelog.options.option import Options


class Source:
    """A file of 1,000 numbers that counts how often it is read."""

    def __init__(self, rows: int = 1000) -> None:
        self.table = pa.table({"k": range(rows)})
        self.reads = 0

    def __call__(self) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield from self.table.to_batches(max_chunksize=300)


def find_matches(cache: LookupCache, name: str, source: Source, **options: str) -> None:
    given = Options({k.replace("__", ".").replace("_", "-"): v for k, v in options.items()})
    batches = list(cache.batches(name, source, given))
    assert pa.Table.from_batches(batches, source.table.schema).equals(source.table)


def test_the_second_lookup_makes_a_copy_and_the_third_reads_it() -> None:
    cache, source = LookupCache(), Source()
    find_matches(cache, "f", source)
    assert cache.size == 0
    find_matches(cache, "f", source)
    assert cache.size > 8000
    find_matches(cache, "f", source)
    assert source.reads == 2


def test_a_file_without_rows_has_a_copy_too() -> None:
    cache, source = LookupCache(), Source(0)
    for _ in range(4):
        find_matches(cache, "f", source)
    assert source.reads == 2


def test_the_longest_unused_copies_go_when_there_is_no_place() -> None:
    cache = LookupCache()
    sources = {name: Source() for name in "abc"}
    for name, source in sources.items():
        find_matches(cache, name, source, lookup__cache_max_disk_size="20 kb")
        find_matches(cache, name, source, lookup__cache_max_disk_size="20 kb")
        find_matches(cache, "a", sources["a"], lookup__cache_max_disk_size="20 kb")
    assert 10_000 < cache.size <= 20 << 10
    assert [s.reads for s in sources.values()] == [2, 2, 2]
    find_matches(cache, "b", sources["b"], lookup__cache_max_disk_size="20 kb")
    assert sources["b"].reads == 3


@pytest.mark.parametrize("size", ["0", "1 kb"])
def test_nothing_is_copied_where_it_would_not_fit(size) -> None:
    cache, source = LookupCache(), Source()
    for _ in range(3):
        find_matches(cache, "f", source, lookup__cache_max_disk_size=size)
    assert cache.size == 0


def test_an_unused_copy_is_dropped(monkeypatch) -> None:
    times = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: times[-1])
    cache, source = LookupCache(), Source()
    for now in (0.0, 1.0, 59.0, 118.0):
        times.append(now)
        find_matches(cache, "f", source, lookup__cache_file_retention="1 min")
    assert source.reads == 2
    times.append(200.0)
    find_matches(cache, "g", Source(), lookup__cache_file_retention="1 min")
    assert cache.size == 0


def test_a_reader_keeps_the_copy_that_it_has() -> None:
    cache, source = LookupCache(), Source()
    for _ in range(2):
        find_matches(cache, "f", source)
    reading = cache.batches("f", source, Options())
    first = next(reading)
    find_matches(cache, "g", Source(), lookup__cache_file_retention="0 s")
    assert [first, *reading] == source.table.to_batches(max_chunksize=300)


def test_a_full_disk_does_not_stop_a_lookup(monkeypatch) -> None:
    def full(*_: object) -> pa.NativeFile:
        raise OSError("no space left on device")

    monkeypatch.setattr(pa, "OSFile", full)
    cache, source = LookupCache(), Source()
    for _ in range(3):
        find_matches(cache, "f", source)
    assert cache.size == 0
