"""What every log system does, whatever it is made of: one suite for all that are registered."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from lakelog.logstore.base import RECORDS_SCHEMA, LogAppender, LogLocation, LogReader, LogSystem
from log_records import append, everything, records


def test_what_is_appended_is_read_as_it_was(appender: LogAppender, reader: LogReader) -> None:
    values = [b"", b"\x00\xff", "é😀".encode(), None, b"x" * 100_000]
    offsets = append(appender, values)
    found = reader.read(0, offsets[0], offsets[-1] + 1)
    assert found.schema == RECORDS_SCHEMA
    assert found.column("value").to_pylist() == values
    assert found.column("key").to_pylist() == [None if v is None else b"key of " + v for v in values]
    assert found.column("offset").to_pylist() == offsets
    assert set(found.column("header").to_pylist()) == {b"1|d|w|0|a"}
    assert abs(found.column("timestamp_ms")[0].as_py() - found.column("timestamp_ms")[-1].as_py()) < 60_000


def test_every_record_may_have_a_header_of_its_own(appender: LogAppender, reader: LogReader) -> None:
    pending = appender.append(1, records([b"a", b"b"], [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"]))
    appender.flush()
    first, last = pending.offsets().to_pylist()
    assert reader.read(1, first, last + 1).column("header").to_pylist() == [b"1|x|w|0|a|0|-1", b"1|x|w|0|a|1|-1"]


def test_offsets_grow_and_go_on_where_the_log_ended(appender: LogAppender, reader: LogReader) -> None:
    first = append(appender, [b"a", b"b", b"c"])
    end = reader.end_offsets([0])[0]
    assert first[-1] < end
    second = append(appender, [b"d"])
    assert sorted({*first, *second}) == first + second
    assert end <= second[0] < reader.end_offsets([0])[0]


def test_the_log_reports_the_number_of_entries_between_two_offsets(appender: LogAppender, reader: LogReader) -> None:
    ends, sent = [reader.end_offsets([0])[0]], []
    for values in ([b"a"], [b"b"] * 30, [], [b"c" * 1000] * 700):
        sent.append(appender.append(0, records(values)))
        appender.flush()
        ends.append(reader.end_offsets([0])[0])
    assert [reader.entries(0, *pair) for pair in zip(ends, ends[1:], strict=False)] == [p.entries for p in sent]
    assert reader.entries(0, ends[0], ends[-1]) == sum(p.entries for p in sent)


def test_records_are_counted_and_skipped_exactly(appender: LogAppender, reader: LogReader) -> None:
    parts = [append(appender, [b"%d" % n] * count) for n, count in enumerate((3, 1, 40, 2))]
    offsets = [offset for part in parts for offset in part]
    start, end = reader.first_offsets([0])[0], reader.end_offsets([0])[0]
    assert reader.count(0, start, end, 1000) == 46
    assert reader.count(0, start, end, 10) == 10
    assert reader.count(0, offsets[2], offsets[44], 1000) == 42
    assert reader.count(0, end, end, 1000) == 0
    for skipped in (1, 3, 4, 17, 46):
        behind = reader.skip(0, start, end, skipped)
        assert offsets[skipped - 1] < behind <= (offsets[skipped] if skipped < 46 else end)
        assert reader.count(0, behind, end, 1000) == 46 - skipped
    assert reader.skip(0, start, offsets[5], 100) == offsets[5]


def test_the_last_record_before_an_end_is_found_without_reading_the_others(
    appender: LogAppender, reader: LogReader
) -> None:
    ends = []
    for values in ([b"a"], [b"b"] * 30, [b"c", b"d"]):
        offsets = append(appender, values)
        ends.append((reader.end_offsets([0])[0], offsets, values[-1]))
    for end, offsets, value in ends:
        start = reader.last_start(0, end)
        assert start is not None and offsets[0] <= start <= offsets[-1]
        assert reader.read(0, start, end).column("value").to_pylist()[-1] == value
    assert reader.last_start(0, ends[1][1][-1] + 1) in ends[1][1]  # an end within what was appended in one


def test_the_changes_of_a_record_have_numbers_of_their_own(appender: LogAppender) -> None:
    packed = records([b"a", b"b", b"c"])
    first = appender.append(0, replace(packed, changes=8192))
    second = appender.append(0, replace(packed, changes=8192))
    plain = appender.append(0, packed)
    appender.flush()
    numbers = [*first.orders(8192), *second.orders(8192)]
    assert all(before + 8192 <= after for before, after in zip(numbers, numbers[1:], strict=False))
    assert plain.orders(1).tolist() == plain.offsets().to_pylist()


def test_several_appends_before_a_flush_keep_their_order(appender: LogAppender, reader: LogReader) -> None:
    pending = [appender.append(0, records([b"%d" % n, b"and"])) for n in range(20)]
    appender.flush()
    offsets = [o for p in pending for o in p.offsets().to_pylist()]
    assert offsets == sorted(offsets)
    assert everything(reader) == [v for n in range(20) for v in (b"%d" % n, b"and")]


def test_an_empty_append_has_no_offsets(appender: LogAppender, reader: LogReader) -> None:
    before = reader.end_offsets()
    assert append(appender, []) == []
    assert reader.end_offsets() == before == reader.first_offsets()


def test_buckets_know_nothing_of_each_other(appender: LogAppender, reader: LogReader) -> None:
    firsts = reader.first_offsets()
    append(appender, [b"a"], 0)
    before = reader.end_offsets()
    append(appender, [b"b", b"c"], 1)
    assert (everything(reader, 0), everything(reader, 1)) == ([b"a"], [b"b", b"c"])
    ends = reader.end_offsets()
    assert ends[0] == before[0] > firsts[0] and ends[1] > before[1] == firsts[1]
    assert reader.end_offsets([1]) == {1: ends[1]}
    assert reader.first_offsets() == firsts


def test_a_read_may_begin_anywhere_again_and_again(appender: LogAppender, reader: LogReader) -> None:
    offsets = append(appender, [b"%d" % n for n in range(50)])
    for start, end in [(0, 50), (40, 50), (10, 20), (20, 30), (0, 1), (49, 50)]:
        found = reader.read(0, offsets[start], offsets[end - 1] + 1)
        assert found.column("value").to_pylist() == [b"%d" % n for n in range(start, end)]


def test_an_empty_range_gives_nothing_at_once(appender: LogAppender, reader: LogReader) -> None:
    offsets = append(appender, [b"a", b"b"])
    end = reader.end_offsets([0])[0]
    assert reader.read(0, offsets[1], offsets[1]).num_rows == 0
    assert reader.read(0, end, end).num_rows == 0
    assert reader.read(0, end).num_rows == 0


def test_a_read_returns_at_most_the_requested_number_of_records(appender: LogAppender, reader: LogReader) -> None:
    offsets = append(appender, [b"%d" % n for n in range(10)])
    position, got = offsets[0], []
    while position <= offsets[-1]:
        found = reader.read(0, position, offsets[-1] + 1, max_records=4)
        assert 0 < found.num_rows <= 4
        got += found.column("value").to_pylist()
        position = found.column("offset")[-1].as_py() + 1
    assert got == [b"%d" % n for n in range(10)]


def test_a_read_with_an_end_waits_for_all_of_a_large_log(appender: LogAppender, reader: LogReader) -> None:
    offsets = append(appender, [b"%08d" % n for n in range(20_000)])
    found = reader.read(0, offsets[0], reader.end_offsets([0])[0])
    assert found.column("value").to_pylist() == [b"%08d" % n for n in range(20_000)]


def follow(reader: LogReader, positions: dict[int, int], count: int) -> list[bytes | None]:
    got: list[bytes | None] = []
    for _ in range(500):
        for bucket in positions:
            found = reader.read(bucket, positions[bucket])
            if found.num_rows:
                got += found.column("value").to_pylist()
                positions[bucket] = found.column("offset")[-1].as_py() + 1
        if len(got) >= count:
            return got
        reader.wait(positions, 0.1)
    raise AssertionError(f"only {len(got)} of {count} records came")


def test_a_wait_ends_when_another_client_appends(
    system: LogSystem, location: LogLocation, appender: LogAppender, reader: LogReader
) -> None:
    append(appender, [b"old"])
    positions = reader.end_offsets()
    writer = threading.Thread(target=append, args=(appender, [b"new"], 1))
    reader.wait(positions, 0)
    writer.start()
    assert follow(reader, positions, 1) == [b"new"]
    writer.join()


def test_following_several_buckets_misses_nothing(appender: LogAppender, reader: LogReader) -> None:
    firsts = reader.first_offsets()

    def write() -> None:
        for n in range(100):
            append(appender, [b"%d" % n], n % 2)

    writer = threading.Thread(target=write)
    writer.start()
    got = follow(reader, firsts, 100)
    writer.join()
    assert sorted(got) == sorted(b"%d" % n for n in range(100))


def test_records_that_are_not_read_yet_hide_no_newer_ones(appender: LogAppender, reader: LogReader) -> None:
    """A reader that has some records at hand would else be a micro-batch behind for ever."""
    positions = reader.end_offsets([0, 1])
    ends = positions
    for bucket in (0, 1, 0, 1):  # read nothing between
        append(appender, [b"more"], bucket)
        ends = reader.end_offsets([0, 1])
        deadline = time.monotonic() + 120
        while (ready := reader.ready_offsets(positions)) != ends and time.monotonic() < deadline:
            reader.wait(positions, 0.05)
        assert ready == ends
    assert reader.read(0, positions[0], ends[0]).column("value").to_pylist() == [b"more", b"more"]


def test_a_wait_without_news_ends_with_its_time(reader: LogReader) -> None:
    reader.wait(reader.end_offsets(), 0.05)


def test_the_records_after_a_time_are_found(appender: LogAppender, reader: LogReader) -> None:
    firsts = reader.first_offsets()
    offsets = append(appender, [b"a", b"b"])
    times = reader.read(0, offsets[0], offsets[1] + 1).column("timestamp_ms").to_pylist()
    assert reader.offsets_at(0) == firsts
    assert reader.offsets_at(times[0]) == firsts
    assert reader.offsets_at(times[-1] + 1) == reader.end_offsets()


def test_writers_at_the_same_time_lose_nothing(system: LogSystem, location: LogLocation, reader: LogReader) -> None:
    offsets: list[int] = []

    def write(name: int) -> None:
        own = system.appender(location)
        for n in range(20):
            offsets.extend(append(own, [b"%d-%d" % (name, n), b"%d-%d'" % (name, n)]))
        own.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = everything(reader)
    assert len(set(offsets)) == 120
    for name in range(3):
        mine = [v for v in values if v is not None and v.startswith(b"%d-" % name)]
        assert mine == [v for n in range(20) for v in (b"%d-%d" % (name, n), b"%d-%d'" % (name, n))]
