"""Whole changes from an upsert log: what a tail tells, and what of its state lies where."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from changelogs import folded
from lakelog import connect
from lakelog.io.storage.local import LocalFileIO
from lakelog.state import keyed_state
from lakelog.state.keyed_state import KeyedState, forget_old, saved_offsets
from lakelog.state.sorted_run import BLOCK_ROWS
from lakelog.table.log.scan import LogScan
from lakelog.table.tail import normalizer
from lakelog.table.tail.normalizer import Normalizer, StreamOrigin, StreamStates
from limits import limit
from log_tables import make, rows, trim

WHOLE = {"log.consumer.normalize": "true"}


def told(table, start="earliest", columns=None, **options: str) -> list[dict]:
    found = table.tail(start, stop="latest", columns=columns, options={**WHOLE, **options})
    return [row for batch in found for row in batch.to_pylist()]


def short(changes: list[dict]) -> list[tuple[str, int, str]]:
    return [(c["_row_kind"], c["id"], c["name"]) for c in changes]


@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_upserts_become_whole_changes(tmp_path, form) -> None:
    table = make(tmp_path, f", 'log-store.data-format' = '{form}'")
    kinds = ["-D", "+I", "+I", "+I", "-D", "-D", "+I"]
    with table.writer() as writer:
        for name, kind in zip("zaabbbc", kinds, strict=True):
            writer.write(rows(1, name=name, kinds=[kind]))
    assert short(told(table)) == [
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
        ("+I", 1, "c"),
    ], "a delete of nothing, the same row again and the second delete tell nothing"


def test_a_key_that_the_snapshot_has_is_updated(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2, 3))
    tail = table.tail("latest-full", options=WHOLE)
    taken: list[dict] = []
    while len(taken) < 3:
        taken += next(tail).to_pylist()
    table.write(rows(2, 3, name="b", kinds=["+U", "-D"]))
    while len(taken) < 6:
        taken += next(tail).to_pylist()
    tail.close()
    assert sorted(short(taken[3:])) == [("+U", 2, "b"), ("-D", 3, "a"), ("-U", 2, "a")], "the row that goes is whole"
    assert folded(taken) == {1: {"id": 1, "name": "a"}, 2: {"id": 2, "name": "b"}}


def test_only_the_columns_that_are_read_count(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        writer.write(rows(1, name="b"))
        writer.write(rows(2, name="b"))
    found = [(c["_row_kind"], c["name"]) for c in told(table, columns=["name"])]
    assert sorted(found) == [("+I", "a"), ("+I", "b"), ("+U", "b"), ("-U", "a")], "without the key, which it needs"
    assert [c["_row_kind"] for c in told(table, columns=["id"])] == ["+I", "+I"], "no update that shows"


def test_inserts_only_are_those_of_new_keys(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        writer.write(rows(1, name="b"))
        writer.write(rows(2))
    found = short(told(table, **{"log.consumer.changelog.modes": "append-only"}))
    assert sorted(found) == [("+I", 1, "a"), ("+I", 2, "a")]


def test_a_log_with_before_images_and_one_without_keys_are_read_as_they_are(tmp_path) -> None:
    whole = make(tmp_path / "all", ", 'log.changelog-mode' = 'all'")
    plain = make(tmp_path / "plain", key="")
    for table in (whole, plain):
        with table.writer() as writer:
            writer.write(rows(1))
            writer.write(rows(1))
        assert short(told(table)) == [("+I", 1, "a"), ("+I", 1, "a")]


def test_rows_that_were_taken_back_are_updates_too(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1))
    lost = table.writer()
    lost.write(rows(1, 2, name="lost"))
    lost.flush()
    lost.abort()
    found = told(table)
    assert folded(found) == {1: {"id": 1, "name": "a"}}
    assert len(found) > 1, "what was there for a moment was told"


def test_nested_values_are_compared_whole(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "other"))
    lake.sql(
        "create table db.n (id int, tags array<string>, at timestamp, ratio double, primary key (id)) using lakelog "
        "tblproperties ('log-store.enabled' = 'true')"
    )
    table = lake.table("db.n")
    nan = float("nan")
    with table.writer() as writer:
        for tags, ratio in ([["a"], nan], [["a"], nan], [["a", None], nan], [None, 0.0], [None, None]):
            writer.write(
                pa.table(
                    {
                        "id": pa.array([1], pa.int32()),
                        "tags": pa.array([tags], pa.list_(pa.string())),
                        "at": pa.array([0], pa.timestamp("us", "UTC")),
                        "ratio": pa.array([ratio], pa.float64()),
                    }
                )
            )
    assert [c["_row_kind"] for c in told(table)] == ["+I", *["-U", "+U"] * 3]


# the state


SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), pa.field("_VALUE_KIND", pa.int8(), nullable=False)])


def some(ids, name: str = "a", kind: int = 0) -> pa.Table:
    ids = list(ids)
    return pa.table([ids, [name] * len(ids), [kind] * len(ids)], schema=SCHEMA)


def found(state: KeyedState, *ids: int) -> dict[int, str]:
    places, table = state.find([np.array(ids, dtype=np.int64)])
    names = table.column("name").to_pylist()
    assert table.column("id").to_pylist() == [ids[p] for p in places]
    return {ids[p]: name for p, name in zip(places, names, strict=True)}


def test_a_state_finds_the_newest_rows_in_memory_and_in_files(tmp_path, monkeypatch) -> None:
    limit(monkeypatch, keyed_bytes=40_000)
    state = KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 0)
    expected: dict[int, str] = {}
    for number in range(60):
        ids = range(number * 97 % 500, number * 97 % 500 + 700, 1 + number % 3)
        kind = 3 if number % 5 == 4 else 0
        state.put(some(ids, f"n{number}", kind))
        for one in ids:
            expected.pop(one, None)
            expected |= {one: f"n{number}"} if kind == 0 else {}
    assert found(state, *range(-5, 1300)) == expected
    assert len(list(tmp_path.iterdir())) > 1, "some of it lies in files"
    state.offset = 7
    state.save()
    other = KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 0)
    assert not other.load(6)
    assert other.load(9) and other.offset == 7
    assert found(other, *range(-5, 1300)) == expected
    assert other.rows < 5_000, "old rows of a key go when runs are merged"


def test_a_lookup_reads_only_blocks_that_may_have_the_key(tmp_path, monkeypatch) -> None:
    state = KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 0)
    state.put(some(range(10 * BLOCK_ROWS)))
    state.save()
    loaded: list[int] = []
    load = KeyedState._block
    monkeypatch.setattr(KeyedState, "_block", lambda s, name, block: loaded.append(block) or load(s, name, block))
    assert found(state, 3, BLOCK_ROWS, BLOCK_ROWS + 1, 9 * BLOCK_ROWS - 1) == dict.fromkeys(
        (3, BLOCK_ROWS, BLOCK_ROWS + 1, 9 * BLOCK_ROWS - 1), "a"
    )
    assert loaded == [0, 1, 8]


def test_two_that_save_the_same_state_leave_one(tmp_path) -> None:
    states = [KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 5) for _ in range(2)]
    for state in states:
        state.put(some([1, 2]))
        state.save()
    assert len(list(tmp_path.iterdir())) == 2, "one save and its run"
    assert found(states[1], 1, 3) == {1: "a"}


def test_old_saves_and_their_runs_go(tmp_path) -> None:
    state = KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 0)
    for offset in range(1, 8):
        state.put(some(range(offset * 10), f"n{offset}"))
        state.offset = offset
        state.save()
    assert saved_offsets(LocalFileIO(), str(tmp_path)) == list(range(1, 8))
    forget_old(LocalFileIO(), str(tmp_path), 5)
    assert saved_offsets(LocalFileIO(), str(tmp_path)) == [5, 6, 7]
    for at in (5, 7):
        assert state.load(at) and found(state, 1, 65) == {1: f"n{at}", **({65: "n7"} if at == 7 else {})}
    named = {run["name"] for at in (5, 6, 7) for run in keyed_state._runs_of(LocalFileIO(), f"{tmp_path}/at-{at:019d}")}
    assert {p.name for p in tmp_path.iterdir() if p.suffix == ".arrow"} == named


def test_a_state_from_before_an_added_column_stays_usable(tmp_path) -> None:
    state = KeyedState(LocalFileIO(), str(tmp_path), SCHEMA, ("id",), 1)
    state.put(some([1]))
    state.save()
    wider = SCHEMA.insert(2, pa.field("more", pa.int32()))
    other = KeyedState(LocalFileIO(), str(tmp_path), wider, ("id",), 0)
    assert other.load(1)
    assert other.find([np.array([1])])[1].to_pylist() == [{"id": 1, "name": "a", "more": None, "_VALUE_KIND": 0}]


def states_of(table, origin: StreamOrigin) -> StreamStates:
    return StreamStates(Normalizer(LogScan(table.logical.with_hints(WHOLE))), origin)


def test_the_rows_of_a_range_are_the_same_from_any_save(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        for number in range(30):
            writer.write(rows(*range(number % 7, 10), name=f"n{number % 4}"))
    ends = LogScan(table.logical).reader.end_offsets()
    origin = StreamOrigin("s", dict.fromkeys(ends, 0))
    for bucket, end in ends.items():
        cuts = [0, end // 4, end // 2, end]
        states = states_of(table, origin)
        whole = [list(states.changes(bucket, a, b)) for a, b in zip(cuts, cuts[1:], strict=False)]
        states.save_all()
        again = [
            list(states_of(table, origin).changes(bucket, a, b, saves=True))
            for a, b in reversed(list(zip(cuts, cuts[1:], strict=False)))
        ]
        assert again[::-1] == whole
        assert folded(row for part in whole for batch in part for row in batch.to_pylist())


@pytest.mark.parametrize("saves", ["in time", "at the end", "in a task"])
def test_the_state_of_a_bucket_is_saved_after_records_without_changes(tmp_path, monkeypatch, saves) -> None:
    table = make(tmp_path)
    now = [1000.0]
    monkeypatch.setattr(normalizer, "monotonic_s", lambda: now[0])
    scan = LogScan(table.logical.with_hints({**WHOLE, "log.consistency": "transactional"}))
    table.write(rows(*range(10)))
    at = scan.reader.end_offsets()[0]
    with table.writer() as writer:
        writer.write(rows(*range(10, 20)))
        writer.flush()
        writer.abort()
    end = scan.reader.end_offsets()[0]
    states = StreamStates(Normalizer(scan), StreamOrigin.new({0: 0, 1: 0}, None))
    assert sum(b.num_rows for b in states.changes(0, 0, at)) > 0
    now[0] += 11
    states.save_old()
    directory = f"{states._durable_root}/0"
    assert saved_offsets(LocalFileIO(), directory) == [at]
    assert list(states.changes(0, at, end, saves=saves == "in a task")) == []
    if saves == "in time":
        for seconds in (50, 11, 1000):
            now[0] += seconds
            states.save_old()
            assert saved_offsets(LocalFileIO(), directory) == ([at] if seconds == 50 else [at, end])
    elif saves == "at the end":
        states.save_all()
    assert saved_offsets(LocalFileIO(), directory) == [at, end]
    trim(table)
    table.write(rows(*range(10), name="b"))
    again = StreamStates(states.normalizer, states.origin)
    told = [row for b in again.changes(0, end, scan.reader.end_offsets()[0]) for row in b.to_pylist()]
    assert told and {row["_row_kind"] for row in told} == {"-U", "+U"}


def test_a_bucket_without_records_has_no_save(tmp_path) -> None:
    states = StreamStates(Normalizer(LogScan(make(tmp_path).logical)), StreamOrigin.new({0: 0, 1: 0}, None))
    assert list(states.changes(0, 0, 0)) == []
    states.save_all()
    assert saved_offsets(LocalFileIO(), f"{states._durable_root}/0") == []


def test_streams_that_ended_long_ago_leave_no_state(tmp_path) -> None:
    table = make(tmp_path)
    table.write(rows(1, 2, 3))
    ends = LogScan(table.logical).reader.end_offsets()
    for name in ("old", "new"):
        states = states_of(table, StreamOrigin(name, dict.fromkeys(ends, 0)))
        for bucket, end in ends.items():
            list(states.changes(bucket, 0, end, saves=True))
        states.save_old()
    root = Path(table.logical.path) / "lakelog" / "normalize"
    os.utime(root / "old" / "alive", (0, 0))
    table.remove_orphan_files(dry_run=True)
    assert sorted(p.name for p in root.iterdir()) == ["new", "old"]
    table.remove_orphan_files()
    assert [p.name for p in root.iterdir()] == ["new"]
