"""``log.consistency`` = transactional: rows come when their epoch is committed, whole, once, and stay."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidOption, OffsetExpired, Unavailable
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.committed_reader import CommittedReader
from lakelog.table.log.position import LogPosition
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.read.snapshot_switch import latest_full
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import JSON, files, log_of, make, rows, silence, trim

TRANSACTIONAL = {"log.consistency": "transactional"}
Row = tuple[str, int, str]


def seen(table: Table, start: str | dict[int, int] = "earliest", **options: str) -> list[Row]:
    given = {**TRANSACTIONAL, **{k.replace("_", "."): v for k, v in options.items()}}
    batches = table.tail(start, stop="latest", options=given)
    return [(r["_row_kind"], r["id"], r["name"]) for batch in batches for r in batch.to_pylist()]


def attempt(table: Table, writer: str, epoch: int, *ids: int, name: str = "a") -> TaskWriter:
    """A task that has its rows in the log and is not finished."""
    register_writer(table.logical, writer)
    task = TaskWriter(table.logical, writer, epoch, 0)
    task.write(rows(*ids, name=name).to_batches()[0])
    task.flush_log()
    return task


@pytest.fixture(params=["debezium-json", "arrow"])
def table(request: pytest.FixtureRequest, tmp_path) -> Table:
    return make(tmp_path, f", 'log-store.data-format' = '{request.param}'", key="")


def test_the_property_of_the_table_is_enough(tmp_path) -> None:
    table = make(tmp_path, ", 'table-storage.log.consistency' = 'transactional'")
    with table.writer() as writer:
        writer.write(rows(1))
        writer.flush()
        assert list(table.tail("earliest", stop="latest")) == []
    assert sum(b.num_rows for b in table.tail("earliest", stop="latest")) == 1
    with pytest.raises(InvalidOption, match=r"log\.consistency.*sometimes"):
        table.tail(options={"log.consistency": "sometimes"})


def test_the_order_of_epochs_is_that_of_their_decisions_wherever_the_log_is_cut(tmp_path) -> None:
    table = make(tmp_path)
    first, second = attempt(table, "x", 0, 1, name="x0"), attempt(table, "y", 0, 1, name="y0")
    x, y = Committer(table.logical, "x"), Committer(table.logical, "y")
    x.commit(0, [first.finish()])
    x.commit(1, [attempt(table, "x", 1, 1, name="x1").finish()])
    y.commit(0, [second.finish()])
    seal(y)
    assert seal(x) is None
    expected = [("+I", 1, "x0"), ("+I", 1, "x1"), ("+I", 1, "y0")]
    assert seen(table) == expected
    scan = LogScan(table.logical.with_hints(TRANSACTIONAL))
    (bucket, end), *_ = sorted(scan.reader.end_offsets().items(), key=lambda item: -item[1])
    for cut in range(end + 1):
        parts = [*scan.read(bucket, 0, cut), *scan.read(bucket, cut, end)]
        assert [(r["_row_kind"], r["id"], r["name"]) for p in parts for r in p.to_pylist()] == expected
    assert files(table) == [(1, "y0")]


def test_an_epoch_is_shown_whole_to_a_reader_that_begins_within_it(table) -> None:
    task = attempt(table, "w", 0, *range(20))
    middle = {b: o - 1 for b, o in LogScan(table.logical).reader.end_offsets().items()}
    committer = Committer(table.logical, "w")
    committer.commit(0, [task.finish()])
    seal(committer)
    assert sorted(r[1] for r in seen(table, middle)) == list(range(20))
    assert seen(table, "latest") == []


def test_long_epochs_are_read_back_in_parts(table) -> None:
    expected = []
    for epoch in range(3):
        task = attempt(table, "w", epoch, *range(epoch * 50, epoch * 50 + 50))
        attempt(table, "other", 0, *range(900, 910))
        committer = Committer(table.logical, "w")
        committer.commit(epoch, [task.finish()])
        seal(committer)
        expected += range(epoch * 50, epoch * 50 + 50)
    scan = LogScan(table.logical.with_hints(TRANSACTIONAL))
    found = []
    for bucket, end in scan.reader.end_offsets().items():
        for most, step in itertools.product((1, 3, 7, 1000), (1, 5, 1000)):
            committed = CommittedReader(scan.reader, most)
            shown = [
                r["id"]
                for start in range(0, end, step)
                for part in scan.reader.chunks(bucket, start, min(end, start + step), most)
                for records in committed.shown(bucket, part)
                for r in scan.decode(records).to_pylist()
            ]
            found.append((bucket, tuple(shown)))
            assert all(part.num_rows <= most for part in scan.reader.chunks(bucket, 0, end, most))
    assert len(set(found)) == 2
    assert sorted(sum((list(shown) for _, shown in set(found)), [])) == expected


def test_the_switch_from_a_snapshot_is_exact(table) -> None:
    slow = attempt(table, "slow", 0, 10, 11)
    committer = Committer(table.logical, "w")
    for epoch in range(4):
        committer.commit(epoch, [attempt(table, "w", epoch, epoch).finish()])
        if epoch in (0, 2):
            seal(committer)
        found = seen(table, "latest-full")
        assert sorted(r[1] for r in found) == list(range(epoch // 2 * 2 + 1))
    scan = LogScan(table.logical.with_hints(TRANSACTIONAL))
    position = latest_full(scan.table)
    seal(committer)
    other = Committer(table.logical, "slow")
    other.commit(0, [slow.finish()])
    seal(other)
    assert sorted(behind(scan, position)) == [3, 10, 11]


def test_rows_of_a_writer_that_appears_during_a_read_are_read_once(table, monkeypatch) -> None:
    registrations = type(table.logical.registered)
    registered: Callable = registrations.all

    def later(self: object) -> object:
        monkeypatch.undo()
        table.write(rows(7))
        return registered(self)

    for options in ({}, TRANSACTIONAL):
        monkeypatch.setattr(registrations, "all", later)
        scan = LogScan(table.logical.with_hints(options))
        position = latest_full(scan.table)
        assert behind(scan, position) == []


def test_rows_that_are_in_the_log_only(tmp_path) -> None:
    table = make(tmp_path, ", 'emit.mode' = 'log'", key="")
    with table.writer() as writer:
        writer.write(rows(1, 2))
        writer.flush()
        assert seen(table) == [] and seen(table, "latest-full") == []
    assert sorted(r[1] for r in seen(table)) == [1, 2]
    assert sorted(r[1] for r in seen(table, "latest-full")) == [1, 2]


def test_a_key_in_the_log_alone_and_later_in_both_stores_ends_as_the_newer(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2, name="log"), options={"emit.mode": "log"})
    table.write(rows(1, name="both"))
    assert {number: name for _, number, name in seen(table, "latest-full")} == {1: "both", 2: "log"}


def test_unowned_rows_are_read_at_their_offsets(tmp_path) -> None:
    table = make(tmp_path, f"{JSON}, 'emit.mode' = 'log'")
    log = log_of(table)
    appender = appender_for(log)
    values = [b'{"before":null,"after":{"id":1,"name":"%d"},"op":"c"}' % number for number in range(3)]
    keys = pa.array([b'{"id":1}'], pa.large_binary())
    records = [Records(keys, pa.array([value], pa.large_binary()), UNOWNED_HEADER) for value in values]
    appender.append(0, records[0])
    task, committer = attempt(table, "w", 0, *range(2, 9), name="w"), Committer(table.logical, "w")
    appender.append(0, records[1])
    committer.commit(0, [task.finish()])
    seal(committer)
    appender.append(0, records[2])
    found = seen(table)
    assert [name for _, number, name in found if number == 1] == ["0", "1", "2"]
    assert sorted(number for _, number, name in found if name == "w") == list(range(2, 9))
    first, last = (found.index(("+I", 1, name)) for name in ("1", "2"))
    assert first < last and all(name == "w" for _, _, name in found[first + 1 : last])
    assert sorted(seen(table, "latest-full")) == sorted(found)


def test_an_epoch_whose_rows_have_expired_is_an_error_that_says_what_to_do(table) -> None:
    task = attempt(table, "w", 0, *range(40))
    committer = Committer(table.logical, "w")
    committer.commit(0, [task.finish()])
    start = LogScan(table.logical).reader.end_offsets()
    seal(committer)
    trim(table, 1)
    with pytest.raises(OffsetExpired, match="latest-full"):
        seen(table, start)
    assert len(seen(table, start, **{"scan_expired-offsets": "earliest"})) > 0
    assert len(seen(table, start, **{"scan_expired-offsets": "latest-full"})) == 40
    held = seen(table, "earliest")
    assert held == seen(table, start, **{"scan_expired-offsets": "earliest"})


def test_expired_rows_of_a_new_epoch_are_also_missed_after_a_snapshot(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(*range(8), name="log"), options={"emit.mode": "log"})
    task, committer = attempt(table, "w", 0, *range(8, 16)), Committer(table.logical, "w")
    trim(table, 8)
    handle = table.logical.with_hints({**TRANSACTIONAL, "scan.expired-offsets": "latest-full"})
    position = latest_full(handle)
    committer.commit(0, [task.finish()])
    seal(committer)
    with pytest.raises(OffsetExpired, match="starts at offset"):
        behind(LogScan(handle), position)


def test_a_failure_to_take_over_is_no_failure_of_a_write(table, monkeypatch) -> None:
    committer = Committer(table.logical, "dead")
    committer.commit(0, [attempt(table, "dead", 0, 1).finish()])
    silence(table, "dead")
    monkeypatch.setattr(Committer, "take_back", away)
    table.write(rows(2))
    assert sorted(r[1] for r in seen(table)) == [1, 2]


def behind(scan: LogScan, position: LogPosition) -> list[int]:
    """What the log tells behind a snapshot."""
    ends, read = scan.reader.end_offsets(), replace(scan, switch=position.switch)
    batches = (
        batch for bucket, offset in position.offsets.items() for batch in read.read(bucket, offset, ends[bucket])
    )
    return [number for batch in batches for number in batch["id"].to_pylist()]


def away(*_: object) -> None:
    raise Unavailable("away")


def test_a_tail_continues_within_epochs_that_one_writer_committed_after_each_other(tmp_path: Path) -> None:
    table = make(tmp_path, key="")
    with table.writer() as writer:
        for number in range(3):
            writer.write(rows(*range(number * 10, number * 10 + 10)))
            writer.commit()
    tail = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    found: list[int] = []
    while True:
        batch = next(tail, None)
        if batch is None:
            break
        found += batch["id"].to_pylist()
        again = table.tail(tail.position, stop="latest", options={"log.consistency": "transactional"})
        rest = [number for later in again for number in later["id"].to_pylist()]
        assert sorted([*found, *rest]) == list(range(30))
    assert len(found) == 30
