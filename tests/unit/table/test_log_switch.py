"""``latest-full``: the newest snapshot, then the log from just behind it, with nothing twice and nothing missing."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pytest

from lakelog.errors import OffsetExpired
from lakelog.logstore.embedded.reader import EmbeddedReader
from lakelog.logstore.protocol.header import CORRECTION, DATA, encode_header
from lakelog.logstore.protocol.healing_plan import Healing
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.position import LogPosition, SnapshotCutover
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import STREAM
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read.snapshot_switch import latest_full
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.tail.subscribe import follow
from log_tables import files, make, rows, trim


def changes(table, start="latest-full", **options: str) -> list[tuple[str, int, str]]:
    found = [b.to_pylist() for b in table.tail(start, stop="latest", options=options)]
    return [(r["_row_kind"], r["id"], r["name"]) for r in sum(found, [])]


def net(found: list[tuple[str, int, str]]) -> list[tuple[int, str]]:
    count: Counter[tuple[int, str]] = Counter()
    for kind, *row in found:
        count[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    assert min(count.values(), default=0) >= 0
    return sorted(count.elements())


def by_key(found: list[tuple[str, int, str]]) -> list[tuple[int, str]]:
    state: dict[int, str] = {}
    for kind, number, name in found:
        state.pop(number, None)
        if kind in ("+I", "+U"):
            state[number] = name
    return sorted(state.items())


def test_a_snapshot_and_the_changes_after_it(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1, 2))
        writer.commit()
        writer.write(rows(2, 3, name="new"))
        writer.flush()
        found = changes(table)
    assert sorted(found) == [("+I", 1, "a"), ("+I", 2, "a"), ("+I", 2, "new"), ("+I", 3, "new")]
    assert sorted(changes(table)) == [("+I", 1, "a"), ("+I", 2, "new"), ("+I", 3, "new")]


def test_an_empty_table_begins_with_its_log(tmp_path) -> None:
    table = make(tmp_path)
    assert changes(table) == []
    with table.writer() as writer:
        writer.write(rows(1))
        writer.flush()
        assert changes(table) == [("+I", 1, "a")]


@pytest.mark.parametrize("ends_of_log", range(4))
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_writer_that_is_taken_back_while_the_reader_begins(tmp_path, monkeypatch, key, ends_of_log) -> None:
    """The reader takes the ends of the log, then the open rows are taken back, then it lists the writers.

    Some of the rows may have been taken back before (``ends_of_log`` records of each bucket are hidden from the reader
    when it asks for the ends).
    """
    table = make(tmp_path, key=key)
    table.write(rows(1, 2))
    open_rows = table.writer()
    open_rows.write(rows(1, 2, 3, 4, name="open"))
    open_rows.flush()
    real = EmbeddedReader.end_offsets

    def ends(reader: EmbeddedReader, *given: object) -> dict[int, int]:
        monkeypatch.setattr(EmbeddedReader, "end_offsets", real)
        if not ends_of_log:
            found = real(reader)
        open_rows.close()
        return found if not ends_of_log else {b: end - ends_of_log for b, end in real(reader).items()}

    monkeypatch.setattr(EmbeddedReader, "end_offsets", ends)
    found = changes(table)
    assert (by_key if key else net)(found) == [(1, "a"), (2, "a")] == files(table)


def test_epochs_that_a_second_writer_sealed_after_open_rows_are_not_marked_twice(tmp_path) -> None:
    table = make(tmp_path, key="")
    first = table.writer()
    first.write(rows(1, 2, name="open"))
    first.flush()
    table.write(rows(1, 2, name="sealed"))
    want = [(1, "open"), (1, "sealed"), (2, "open"), (2, "sealed")]
    assert net(changes(table)) == want
    tail = table.tail("latest-full", stop="latest")
    first.commit()
    first.close()
    assert net(changes(table)) == want == files(table)
    kinds = [(r["_row_kind"], r["id"], r["name"]) for batch in tail for r in batch.to_pylist()]
    assert net(kinds) == want, "the position was taken when the tail was asked for"


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_late_record_of_a_sealed_epoch_and_its_correction_add_up_to_nothing(tmp_path, key) -> None:
    table = make(tmp_path, key=key)
    handle = table.logical
    register_writer(handle, "w")
    task = TaskWriter(handle, "w", 0, lane=0)
    task.write(rows(1, 2).to_batches()[0])
    committer = Committer(handle, "w")
    committer.commit(0, [task.finish()])
    seal(committer)
    position = latest_full(handle)
    zombie = TaskWriter(handle, "w", 0, lane=1)
    zombie.write(rows(1, 9, name="zombie").to_batches()[0])
    zombie.finish()
    refused, task = (TaskWriter(handle, "w", 1, lane=0) for _ in range(2))
    refused.write(rows(2, 5, name="refused").to_batches()[0])
    refused.finish()
    zombie = TaskWriter(handle, "w", 0, lane=1)
    zombie.write(rows(2, name="zombie").to_batches()[0])
    zombie.finish()
    task.write(rows(3).to_batches()[0])
    Committer(handle, "w").commit(1, [task.finish()])
    fold = by_key if key else net
    assert fold(changes(table)) == [(1, "a"), (2, "a"), (3, "a")], "from a snapshot of before"
    seal(Committer(handle, "w"))
    table.seal()
    assert fold(changes(table)) == files(table) == [(1, "a"), (2, "a"), (3, "a")]
    assert LogPosition.from_json(position.to_json("x"), "x", "db.t") == position


def test_a_key_stays_as_decided_where_a_late_record_of_a_sealed_epoch_was_corrected_last(tmp_path) -> None:
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'")
    handle = table.logical
    register_writer(handle, "w")

    def attempt(epoch: int, kind: str):
        task = TaskWriter(handle, "w", epoch, lane=0)
        task.write(rows(2, name=f"{kind} of epoch {epoch}", kinds=[kind]).to_batches()[0])
        return task.finish()

    committer = Committer(handle, "w")
    committer.commit(0, [])
    committer.commit(1, [attempt(1, "+I")])
    seal(committer)
    attempt(0, "+I")
    attempt(2, "-D")
    committer.commit(2, [attempt(2, "-D")])
    assert by_key(changes(table)) == []


def test_a_rewritten_row_of_the_log_only_is_not_emitted_last(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2, name="only in the log"), options={"emit.mode": "log"})
    table.write(rows(1, name="in both"))
    assert by_key(changes(table)) == [(1, "in both"), (2, "only in the log")] == by_key(changes(table, "earliest"))
    position = latest_full(table.logical)
    assert LogPosition.from_json(position.to_json("x"), "x", "db.t") == position


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
@pytest.mark.parametrize("expired", ["error", "earliest", "latest-full"])
def test_repeated_records_after_a_snapshot_are_those_the_log_still_has(tmp_path, key, expired) -> None:
    table = make(tmp_path, key=key)
    table.write(rows(*range(8), name="log"), options={"emit.mode": "log"})
    table.write(rows(*range(8, 16), name="both"))
    options = {"log.consistency": "transactional", "scan.expired-offsets": expired}
    held = [r for r in changes(table, "earliest", **options) if r[2] == "log"]
    for first in range(1, 20):
        trim(table, first)
        batches = itertools.islice(table.tail("latest-full", stop="latest", options=options), 20)  # not for ever
        found = [(r["_row_kind"], r["id"], r["name"]) for batch in batches for r in batch.to_pylist()]
        in_log = changes(table, "earliest", **options)
        held = [r for r in held if r in in_log]
        assert sorted(r for r in found if r[2] == "log") == sorted(held)
        assert {r[1] for r in found if r[2] == "both"} == set(range(8, 16))
        assert key or len(found) == len(held) + 8, "nothing twice"
    assert held == []


def test_expired_offsets_fall_back_as_the_option_says(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2))
    trim(table)
    table.write(rows(3))
    start = {0: 0, 1: 0}
    with pytest.raises(OffsetExpired, match=r"offset 0 of bucket \d of .* db.t has expired.*'latest-full'"):
        changes(table, start)
    assert changes(table, start, **{"scan.expired-offsets": "earliest"}) == [("+I", 3, "a")]
    again = changes(table, start, **{"scan.expired-offsets": "latest-full"})
    assert sorted(again) == [("+I", n, "a") for n in (1, 2, 3)]


def test_records_that_expire_under_a_slow_reader(tmp_path) -> None:
    table = make(tmp_path)
    handle = table.logical.with_hints({"scan.expired-offsets": "earliest"})
    table.write(rows(1, 2))
    tail = follow(LogScan(handle), "latest", None)
    table.write(rows(3, 4, 5, 6))
    assert next(tail).num_rows
    trim(table)
    table.write(rows(30, 40, 50, 60))
    seen: list[int] = []
    while len(seen) < 4:
        seen += next(tail)["id"].to_pylist()
    assert sorted(seen) == [30, 40, 50, 60]


def test_columns_and_kinds_of_the_snapshot_part(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1))
    (batch,) = table.tail("latest-full", stop="latest", columns=["name"])
    assert batch.schema == pa.schema([("name", pa.string()), pa.field("_row_kind", pa.string(), nullable=False)])


@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.parametrize(
    ("epoch", "ref", "kept"), [(1, 23, False), (2, 23, True), (1, 33, True)], ids=["late", "later epoch", "open row"]
)
def test_corrections_of_a_late_healer_do_not_follow_a_newer_snapshot(
    epoch: int, ref: int, kept: bool, sign: int
) -> None:
    """Two processes heal an epoch of ``w``; the seal of the first one verifies offset 32, the other restores behind it.

    A later row of the key is in the snapshot, so that the reader skips it.
    """
    switch = SnapshotCutover(starts={"w": {0: 32}, "v": {0: 43}}, sealed={"w": 1, "v": 1}, ends={0: 45})
    headers = [encode_header(CORRECTION, "w", epoch, "a", ref, sign), encode_header(DATA, "v", 1, "b")]
    records = pa.table(
        {"offset": [34, 42], "timestamp": [0, 0], "key": [b"k"] * 2, "value": [b"v"] * 2, "header": headers}
    )
    assert switch.kept(0, records).column("offset").to_pylist() == ([34] if kept else [])


def test_a_reader_that_starts_between_two_healers_of_one_epoch_ends_with_its_accepted_row(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'")
    logical = table.logical
    table.write(rows(1, name="old"))
    register_writer(logical, "query", STREAM)
    accepted, _ = (attempt(logical, name).finish() for name in ("accepted", "lost"))
    plan, position = Healing.plan, []

    def suspended(self: Healing, *arguments: object) -> object:
        planned = plan(self, *arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(Healing, "plan", plan)
        helper = Committer(logical, "query", helps=True)
        helper.verify(waiting_epochs(logical).waiting[-1])
        assert seal(helper) is not None
        position.append(table.tail("latest-full").position)
        return planned

    monkeypatch.setattr(Healing, "plan", suspended)
    Committer(logical, "query").commit(0, [accepted])
    assert by_key(changes(table, position[0])) == by_key(changes(table)) == files(table) == [(1, "accepted")]


def attempt(logical: DynamicTable, name: str) -> TaskWriter:
    task = TaskWriter(logical, "query", 0, 0)
    pair = {"id": pa.array([1, 1], pa.int32()), "name": ["old", name], "_row_kind": ["-U", "+U"]}
    task.write(pa.table(pair).to_batches()[0])
    task.flush_log()
    return task
