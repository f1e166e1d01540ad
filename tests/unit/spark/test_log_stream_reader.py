"""Spark's reader of the log without Spark around it: the plan of each micro-batch, and what its tasks read."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from lakelog.errors import InvalidRequest, NotFound, OffsetExpired
from lakelog.lake.table import Table
from lakelog.spark.compat.sources import ReadAllAvailable
from lakelog.spark.read.log_stream_reader import LakelogStreamReader
from lakelog.spark.runtime.types import spark_schema
from lakelog.table.log.register import NamedReaders
from lakelog.table.log.scan import LogScan
from log_tables import make, rows, trim

FULL = {"read.mode": "log", "scan.startup.mode": "latest-full"}


def reader(table: Table, **options: str) -> LakelogStreamReader:
    hinted = table.logical.with_hints(
        {**FULL, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    )
    return LakelogStreamReader(hinted, spark_schema(LogScan(hinted).schema))


def batches(source: LakelogStreamReader, at: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[tuple[str, int]]]]:
    """Micro-batches up to the end: offset and rows, each read by the driver or by tasks of other processes."""
    while (end := source.latestOffset(at, ReadAllAvailable())) != at:
        parts = source.partitions(at, end)
        held = source.getCache(at, end)
        if held is None:
            held = (b for part in pickle.loads(pickle.dumps(parts)) for b in source.read(part))
        yield end, sorted((r["_row_kind"], r["id"]) for b in held for r in b.to_pylist())
        source.commit(end)
        at = end


def seen(source: LakelogStreamReader, at: dict[str, Any]) -> list[tuple[str, int]]:
    return [row for _, found in batches(source, at) for row in found]


def test_a_snapshot_part_by_part_then_the_log(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(*range(20)))
    first = reader(table, read__max_rows_per_trigger="5")
    start = first.initialOffset()
    with table.writer() as writer:
        writer.write(rows(20, 21))
        writer.commit()
        writer.write(rows(22))
        writer.flush()
        steps = list(batches(first, start))
    assert sorted(row for _, found in steps for row in found) == [("+I", n) for n in range(23)]
    assert [bool(end.get("full")) for end, _ in steps][:2] == [True, False], "one bucket a micro-batch"


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_restart_goes_on_where_the_checkpoint_is(tmp_path, done) -> None:
    table = make(tmp_path)
    table.write(rows(*range(20)))
    first = reader(table, read__max_rows_per_trigger="5")
    start = first.initialOffset()
    steps, taken = batches(first, start), []
    for _ in range(done):
        start, found = next(steps)
        taken += found
    for number in range(20, 23):
        table.write(rows(number))
    table.compact(on_spark=False)
    taken += seen(reader(table, read__max_rows_per_trigger="5"), start)
    assert sorted(taken) == [("+I", n) for n in range(23)], "compacted meanwhile, or not"


@pytest.mark.parametrize("mode", ["latest-full", "earliest", "latest"])
def test_the_first_micro_batch_is_the_same_when_it_is_repeated(tmp_path, mode) -> None:
    """Spark asks for the initial offset again then, which is another one by now."""
    table = make(tmp_path, key="")
    table.write(rows(1, 2, 3))
    first = reader(table, scan__startup__mode=mode)
    start = first.initialOffset()
    table.write(rows(4, 5))
    steps = batches(first, start)
    end, found = next(steps)
    table.write(rows(6, 7))
    again = reader(table, scan__startup__mode=mode)
    parts = again.partitions(again.initialOffset(), end)
    repeated = sorted((r["_row_kind"], r["id"]) for p in parts for b in again.read(p) for r in b.to_pylist())
    assert repeated == found
    rest = seen(again, end)
    assert sorted(found + rest) == [("+I", n) for n in range(4 if mode == "latest" else 1, 8)]


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
@pytest.mark.parametrize(("appends", "size"), [(30, 10), (3, 9_000)], ids=["small", "large"])
def test_a_micro_batch_has_as_many_rows_as_the_limit_allows(tmp_path, form, appends, size) -> None:
    table = make(tmp_path, f", 'log-store.data-format' = '{form}'", "")
    with table.writer() as writer:
        for number in range(appends):
            writer.write(rows(*range(number * size, number * size + size)))
            writer.flush()
    most = appends * size // 3
    source = reader(table, read__max_rows_per_trigger=str(most), scan__startup__mode="earliest")
    found = [len(step) for _, step in batches(source, source.initialOffset())]
    assert sum(found) == appends * size and len(found) <= 6
    assert all(count <= (most if size < 100 else most + 8192) for count in found), "or one record of each bucket"


def test_small_records_are_read_by_few_tasks_or_by_the_driver(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, key="")
    with table.writer() as writer:
        for number in range(200):
            writer.write(rows(number))
            writer.flush()
    source = reader(table, scan__startup__mode="earliest")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    assert source.getCache(start, end) is not None, "200 rows, in as many records"
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader._PREFETCH_ROWS", 50)
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader._MOST_TASKS", 2)
    source = reader(table, scan__startup__mode="earliest")
    end = source.latestOffset(start, ReadAllAvailable())
    assert source.getCache(start, end) is None and len(source.partitions(start, end)) <= 4
    assert sorted(seen(source, start)) == [("+I", number) for number in range(200)]


def test_a_named_reader_keeps_its_snapshot_from_expiry(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(*range(20)))
    source = reader(table, read__max_rows_per_trigger="5", consumer_id="mirror")
    steps = batches(source, source.initialOffset())
    at, taken = next(steps)
    source.commit(at)
    for number in range(20, 22):
        table.write(rows(number))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    source._reported = float("-inf")
    taken += seen(source, at)
    assert sorted(taken) == [("+I", n) for n in range(22)]
    (named,) = NamedReaders(table.logical.io, table.path).list()
    assert named.name == "mirror"


def expire(table: Table) -> None:
    for number in range(20, 22):
        table.write(rows(number))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")


def test_a_snapshot_that_has_expired_is_an_error_or_a_new_beginning(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1))
    start = reader(table).initialOffset()
    expire(table)
    with pytest.raises(NotFound):
        seen(reader(table), start)
    anew = seen(reader(table, scan__expired_offsets="latest-full"), start)
    assert sorted(anew) == [("+I", 1), ("+I", 20), ("+I", 21)]


def test_offsets_that_have_expired(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2))
    start = reader(table, scan__startup__mode="earliest").initialOffset()
    trim(table)
    table.write(rows(3))
    with pytest.raises(OffsetExpired, match="'scan.expired-offsets'='latest-full'"):
        seen(reader(table), start)
    assert seen(reader(table, scan__expired_offsets="earliest"), start) == [("+I", 3)]
    again = seen(reader(table, scan__expired_offsets="latest-full"), start)
    assert sorted(again) == [("+I", n) for n in (1, 2, 3)]


def test_long_ranges_of_the_log_are_read_by_tasks_that_leave_out_the_same_records(tmp_path, monkeypatch) -> None:
    table = make(tmp_path, key="")
    early = table.writer()
    early.write(rows(*range(10)))
    early.flush()
    table.write(rows(*range(10, 20)))
    source = reader(table)
    monkeypatch.setattr(source, "_prefetch", 1)
    assert sorted(seen(source, source.initialOffset())) == [("+I", n) for n in range(20)]
    early.close()


TRANSACTIONAL = {"log__consistency": "transactional", "scan__startup__mode": "earliest"}


def test_a_transactional_stream_waits_for_the_commit_and_plans_the_same_again(tmp_path) -> None:
    table = make(tmp_path, ", 'commit.interval' = '0 s'")
    source = reader(table, **TRANSACTIONAL)
    start = source.initialOffset()
    with table.writer() as writer:
        writer.write(rows(*range(20)))
        writer.flush()
        assert source.latestOffset(start, ReadAllAvailable()) == start
        writer.write(rows(*range(20, 30)))
        writer.flush()
        assert source.latestOffset(start, ReadAllAvailable()) == start
        writer.commit()
        ((end, found),) = batches(source, start)
        writer.write(rows(30))
        writer.commit()
        assert found == sorted(("+I", n) for n in range(30))
        again = reader(table, **TRANSACTIONAL)
        assert sorted(r for part in again.partitions(start, end) for b in again.read(part) for r in ids(b)) == found
        assert seen(again, end) == [("+I", 30)]


def write(table: Table, *numbers: int) -> None:
    """Writes and commits; the commit records show nothing to an eventual reader."""
    table.write(rows(*numbers))


def take_back(table: Table, *numbers: int) -> None:
    """Rows that show nothing to a transactional reader."""
    with table.writer() as writer:
        writer.write(rows(*numbers))
        writer.flush()
        writer.abort()


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader.monotonic_s", lambda: now[0])
    return now


def at_rest(table: Table, mode: str) -> tuple[LakelogStreamReader, dict[str, Any]]:
    """A stream whose checkpoint stands before records that show nothing, which it has read."""
    source = reader(table, log__consistency=mode, scan__startup__mode="earliest")
    at = source.initialOffset()
    with table.writer() as writer:
        writer.write(rows(*range(10)))
        writer.flush()
        if mode == "transactional":
            writer.commit()
        *_, (at, _) = batches(source, at)
    if mode == "transactional":
        take_back(table, *range(10, 20))
    assert source.latestOffset(at, ReadAllAvailable()) == at
    return source, at


@pytest.mark.parametrize("mode", ["eventual", "transactional"])
def test_an_idle_stream_notes_from_time_to_time_how_far_it_has_come(tmp_path, clock, mode) -> None:
    table = make(tmp_path)
    source, at = at_rest(table, mode)
    clock[0] += 50
    assert list(batches(source, at)) == []
    clock[0] += 20
    ((end, found),) = batches(source, at)
    assert found == [] and LogScan(table.logical).reader.end_offsets() == source._from_json(end).offsets
    clock[0] += 1000
    assert list(batches(source, end)) == [], "there is nothing more to note"
    again = reader(table, log__consistency=mode, scan__startup__mode="earliest")
    assert [row for part in again.partitions(at, end) for b in again.read(part) for row in ids(b)] == []
    trim(table)
    with pytest.raises(OffsetExpired) if mode == "transactional" else nullcontext():
        again.partitions(at, end)
    write(table, 20, 21)
    anew = reader(table, log__consistency=mode, scan__startup__mode="earliest")
    assert seen(anew, end) == [("+I", 20), ("+I", 21)]


def test_records_are_noted_the_sooner_the_sooner_they_expire(tmp_path, clock) -> None:
    table = make(tmp_path, ", 'log-store.retention' = '20 s'")
    source, at = at_rest(table, "eventual")
    clock[0] += 4
    assert list(batches(source, at)) == []
    clock[0] += 2
    assert [found for _, found in batches(source, at)] == [[]]


@pytest.mark.parametrize("prefetch", [0, 20_000])
@pytest.mark.parametrize("mode", ["eventual", "transactional"])
def test_a_stream_continues_when_its_read_records_expire(tmp_path, mode, prefetch) -> None:
    table = make(tmp_path)
    source, at = at_rest(table, mode)
    trim(table)
    source._prefetch = prefetch
    write(table, *range(20, 30))
    assert seen(source, at) == [("+I", n) for n in range(20, 30)]


@pytest.mark.parametrize("prefetch", [0, 20_000])
def test_a_restarted_stream_continues_if_only_control_records_expired(tmp_path, prefetch) -> None:
    table = make(tmp_path)
    _, at = at_rest(table, "eventual")
    trim(table)
    source = reader(table)
    source._prefetch = prefetch
    with table.writer() as writer:
        writer.write(rows(*range(20, 30)))
        writer.flush()
        assert seen(source, at) == [("+I", n) for n in range(20, 30)]


def test_a_stream_that_starts_again_may_have_missed_rows(tmp_path) -> None:
    """What an open attempt has left, or to a transactional reader a commit record."""
    table = make(tmp_path)
    source = reader(table, **TRANSACTIONAL)
    start = source.initialOffset()
    write(table, *range(10))
    trim(table)
    write(table, 20)
    with pytest.raises(OffsetExpired):
        seen(reader(table, **TRANSACTIONAL), start)
    open_rows = make(tmp_path / "open")
    _, at = at_rest(open_rows, "eventual")
    writer = open_rows.writer()
    writer.write(rows(*range(10)))
    writer.flush()
    trim(open_rows)
    with pytest.raises(OffsetExpired):
        seen(reader(open_rows), at)


def ids(batch: Any) -> list[tuple[str, int]]:
    return [(r["_row_kind"], r["id"]) for r in batch.to_pylist()]


@pytest.mark.parametrize("prefetch", [1, 20_000])
def test_a_transactional_stream_of_long_epochs_is_read_by_tasks(tmp_path, monkeypatch, prefetch) -> None:
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader._PREFETCH_AT_LEAST", 1)
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader._PREFETCH_ROWS", prefetch)
    monkeypatch.setattr("lakelog.spark.read.log_stream_reader.PARTITION_ROWS", 7)
    table = make(tmp_path)
    source = reader(table, **TRANSACTIONAL)
    at = source.initialOffset()
    with table.writer() as writer:
        for number in range(3):
            writer.write(rows(*range(number * 20, number * 20 + 20)))
            writer.flush()
            steps = list(batches(source, at))
            assert all(found == [] for _, found in steps)
            at = steps[-1][0] if steps else at
        writer.commit()
    end = source.latestOffset(at, ReadAllAvailable())
    assert source.getCache(at, end) is None, "more rows than are read while planning"
    assert seen(source, at) == sorted(("+I", n) for n in range(60))


def test_a_transactional_stream_with_a_limit_and_available_now(tmp_path) -> None:
    table = make(tmp_path, ", 'commit.interval' = '0 s'")
    with table.writer() as writer:
        for number in range(10):
            writer.write(rows(number))
            writer.commit()
        writer.write(rows(99))
        writer.flush()
        source = reader(table, read__max_rows_per_trigger="4", **TRANSACTIONAL)
        source.prepareForTriggerAvailableNow()
        steps = list(batches(source, source.initialOffset()))
    assert len(steps) > 2 and sorted(r for _, found in steps for r in found) == sorted(("+I", n) for n in range(10))


def test_latest_full_then_transactional(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer, table.writer() as other:
        other.write(rows(50))
        other.flush()
        writer.write(rows(*range(5)))
        writer.commit()
        source = reader(table, log__consistency="transactional")
        start = source.initialOffset()
        writer.write(rows(6))
        writer.commit()
        other.commit()
    expected = sorted(("+I", n) for n in (*range(5), 6, 50))
    assert sorted(seen(source, start)) == expected
    assert sorted(seen(reader(table, log__consistency="transactional"), start)) == expected


@pytest.mark.parametrize("mode", ["eventual", "transactional"])
def test_a_checkpoint_goes_on_with_the_consistency_that_it_began_with(tmp_path, mode) -> None:
    table = make(tmp_path)
    other = "eventual" if mode == "transactional" else "transactional"
    start = reader(table, log__consistency=mode).initialOffset()
    with pytest.raises(InvalidRequest, match=f"created with 'log.consistency'='{mode}'"):
        reader(table, log__consistency=other).latestOffset(start, ReadAllAvailable())
