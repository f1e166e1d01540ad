"""A table with a log whose number of buckets changes, or is dynamic: both stores keep the same rows (RFC 18)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bucket_tables import IDS, KINDS, buckets_of, change_buckets, check, lake_of, make
from lakelog.errors import InvalidOption, LakelogError
from lakelog.lake.table import Table
from lakelog.table.commit import file_commit
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.log.register import register_writer
from lakelog.table.log.scan import LogScan
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.materializer import LogMaterializer
from limits import limit
from log_tables import files, folded, rows, write


@pytest.fixture(params=["embedded", "files"])
def system(request: pytest.FixtureRequest) -> str:
    return f", 'log-store.type' = '{request.param}'"


@pytest.fixture(params=["inline", "large"])
def staged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "large":
        limit(monkeypatch, inline_bytes=0)
        limit(monkeypatch, union_rows=0)
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_both_stores_have_the_same_rows(tmp_path: Path, kind: str, system: str, staged: str) -> None:
    table = make(tmp_path, kind, system)
    write(table, *IDS, name="a")
    write(table, *IDS[::2], name="b")
    write(table, *IDS[::5], name="b", kinds=["-D"] * len(IDS[::5]))
    wanted = {i: "b" if i % 2 == 0 else "a" for i in IDS if i % 5}
    check(table, wanted)
    if kind != "dynamic buckets":
        table = change_buckets(table, 5)
        write(table, 1, 2, 100, name="between")
        table.rescale()
        assert {total for _, total in buckets_of(table)} == {5}
        write(table, 2, 3, 101, name="after")
        wanted |= {1: "between", 100: "between"} | dict.fromkeys((2, 3, 101), "after")
    else:
        assert len(buckets_of(table)) > 3
    check(table, wanted)
    table.compact()
    check(table, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["debezium-json", "arrow"])
def test_all_changes_of_a_key_are_in_one_partition_of_the_log(tmp_path: Path, kind: str, form: str) -> None:
    table = make(tmp_path, kind, f", 'log-store.data-format' = '{form}'")
    write(table, *IDS, name="a")
    if kind != "dynamic buckets":
        table = change_buckets(table, 8)
        table.rescale()
    write(table, *IDS, name="b")
    scan, places = LogScan(table.logical), defaultdict[int, set[int]](set)
    ends, firsts = scan.reader.end_offsets(), scan.reader.first_offsets()
    for partition, end in ends.items():
        found = list(scan.read(partition, firsts[partition], end))
        assert found
        for number in (number for batch in found for number in batch["id"].to_pylist()):
            places[number].add(partition)
    assert set(places) == set(IDS)
    assert {len(found) for found in places.values()} == {1}


def test_existing_records_keep_their_partition_and_the_schema_says_how_many(tmp_path: Path) -> None:
    table = make(tmp_path, "more buckets")
    assert "log-store.partitions" not in table.options
    table = change_buckets(table, 8)
    assert table.options["log-store.partitions"] == "2"
    assert table.logical.log is not None and table.logical.log.buckets == 2
    table = change_buckets(table, 2)
    assert table.options["log-store.partitions"] == "2"
    for change in ("set tblproperties ('log-store.partitions' = '4')", "unset tblproperties ('log-store.partitions')"):
        with pytest.raises(InvalidOption, match="log-store.partitions"):
            lake_of(table).sql(f"alter table db.t {change}")
    with pytest.raises(InvalidOption, match="only a fixed number"):
        write(table, 1, name="a")
        lake_of(table).sql("alter table db.t set tblproperties ('bucket' = '-1')")


def test_a_writer_from_before_goes_on_after_a_rescale(tmp_path: Path, system: str, staged: str) -> None:
    old = make(tmp_path, "more buckets", system)
    write(old, *IDS, name="a")
    committer = Committer(old.logical, "w")
    register_writer(old.logical, "w")

    def epoch(number: int, *ids: int) -> None:
        task = TaskWriter(old.logical, "w", number, 0)
        task.write(rows(*ids, name=f"epoch {number}").to_batches()[0])
        committer.commit(number, [task.finish()])

    epoch(0, 1, 2, 3)
    new = change_buckets(old, 5)
    epoch(1, 2, 3)
    new.rescale()
    epoch(2, 3, 41)
    wanted = dict.fromkeys(IDS, "a") | {1: "epoch 0", 2: "epoch 1", 3: "epoch 2", 41: "epoch 2"}
    assert files(new) == sorted(wanted.items())
    seal(committer)
    assert {total for _, total in buckets_of(new)} == {5}
    check(new, wanted)


def test_a_rescale_during_a_seal_loses_nothing(tmp_path: Path, staged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, "more buckets")
    write(table, *IDS, name="a")
    committer = Committer(table.logical, "w")
    register_writer(table.logical, "w")
    task = TaskWriter(table.logical, "w", 0, 0)
    task.write(rows(1, 2, 3, name="b").to_batches()[0])
    committer.commit(0, [task.finish()])
    made, others = file_commit.level0_files_of, [change_buckets]

    def slow(*args: Any) -> Any:
        found = made(*args)
        while others:
            new = others.pop()(table, 5)
            with monkeypatch.context() as nothing_waits:
                nothing_waits.setattr("lakelog.table.write.rescale.seal_decided", lambda _: None)
                new.rescale()
        return found

    monkeypatch.setattr(file_commit, "level0_files_of", slow)
    assert seal(committer) is not None
    assert {total for _, total in buckets_of(table)} == {5}
    check(table, dict.fromkeys(IDS, "a") | dict.fromkeys((1, 2, 3), "b"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["latest-full", "earliest"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_tail_and_its_position_go_on_over_the_change(tmp_path: Path, kind: str, start: str, whole: bool) -> None:
    table = make(tmp_path, kind)
    write(table, *IDS, name="a")
    options = {"log.consumer.normalize": str(whole).lower()}
    state: dict[int, str] = {}

    def follow(tail: Iterator[pa.RecordBatch]) -> Any:
        for batch in tail:
            for row in batch.to_pylist():
                if whole:
                    assert (row["id"] in state) == (row["_row_kind"] in ("-U", "-D")), row
                state.pop(row["id"], None)
                if row["_row_kind"] in ("+I", "+U"):
                    state[row["id"]] = row["name"]
        return tail.position  # type: ignore[attr-defined]

    position = follow(table.tail(start, stop="latest", options=options))
    changed = table
    if kind != "dynamic buckets":
        changed = change_buckets(table, 5)
    write(changed, 1, 2, 50, name="b")
    position = follow(table.tail(position, stop="latest", options=options))
    if kind != "dynamic buckets":
        changed.rescale()
    write(changed, 2, 3, name="c")
    write(changed, 4, name="c", kinds=["-D"])
    follow(table.tail(position, stop="latest", options=options))
    wanted = dict.fromkeys(IDS, "a") | {1: "b", 50: "b", 2: "c", 3: "c"}
    del wanted[4]
    assert state == wanted
    state.clear()
    follow(lake_of(table).table("db.t").tail("latest-full", stop="latest", options=options))
    assert state == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_open_rows_are_part_of_a_union_read(tmp_path: Path, kind: str, system: str, staged: str) -> None:
    table = make(tmp_path, kind, f", 'log-store.data-format' = 'debezium-json'{system}")
    write(table, *IDS, name="a")
    if kind != "dynamic buckets":
        table = change_buckets(table, 8)
    register_writer(table.logical, "w")
    committer = Committer(table.logical, "w")
    decided = TaskWriter(table.logical, "w", 0, 0)
    decided.write(rows(1, 2, 60, name="decided").to_batches()[0])
    committer.commit(0, [decided.finish()])
    task = TaskWriter(table.logical, "w", 1, 0)
    task.write(rows(2, 3, 60, 61, name="open").to_batches()[0])
    task.flush_log()
    wanted = dict.fromkeys(IDS, "a") | {1: "decided"} | dict.fromkeys((2, 3, 60, 61), "open")
    assert files(table, **{"read.mode": "union"}) == sorted(wanted.items())
    task.close()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_dead_attempt_are_taken_back(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    write(table, *IDS, name="a")
    if kind != "dynamic buckets":
        table = change_buckets(table, 3)
    register_writer(table.logical, "w")
    committer = Committer(table.logical, "w")
    dead = TaskWriter(table.logical, "w", 0, 0)
    dead.write(rows(*IDS, 70, name="dead").to_batches()[0])
    dead.flush_log()
    task = TaskWriter(table.logical, "w", 0, 0)
    task.write(rows(1, 2, name="b").to_batches()[0])
    committer.commit(0, [task.finish()])
    dead.close()
    committer.commit(0, [])
    register_writer(table.logical, "w")
    check(table, dict.fromkeys(IDS, "a") | dict.fromkeys((1, 2), "b"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_retraction_deletes_no_row(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    write(table, *IDS, name="a")
    register_writer(table.logical, "w")
    results = []
    for number, (what, name) in enumerate([("+U", "b"), ("-U", "a")]):
        task = TaskWriter(table.logical, "w", 0, number)
        task.write(rows(*IDS, name=name, kinds=[what] * len(IDS)).to_batches()[0])
        results.append(task.finish())
    Committer(table.logical, "w").commit(0, results)
    check(table, dict.fromkeys(IDS, "b"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_follower_writes_the_rows_of_a_log_to_the_buckets_of_now(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.write(rows(*IDS, name="a"), options={"emit.mode": "log"})
    assert files(table, **{"read.mode": "union"}) == [(i, "a") for i in IDS]
    if kind != "dynamic buckets":
        table = change_buckets(table, 5)
    list(LogMaterializer(table.logical).follow("latest"))
    assert files(table, **{"read.mode": "union"}) == [(i, "a") for i in IDS] == folded(table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_a_log_of_changes_adds_up_over_every_move(tmp_path: Path, kind: str, mode: str) -> None:
    table = make(tmp_path, kind, f", 'log.content' = 'changes', 'log.changelog-mode' = '{mode}'")
    chance, state = random.Random(7), dict[int, str]()
    for step in range(8):
        name, some = f"step {step}", chance.sample(IDS, 12)
        if step in (2, 5) and kind != "dynamic buckets":
            table = change_buckets(table, 5 if step == 2 else 2)
            write(table, *some[:3], 99, name="between")
            state |= dict.fromkeys((*some[:3], 99), "between")
            assert folded(table) == sorted(state.items()) == files(table)
            before = table.tail("latest", stop="latest").position
            table.rescale()
            assert list(table.tail(before, stop="latest")) == []
        if step in (3, 6):
            overwrite(table, some, name)
            state = dict.fromkeys(some, name)
        else:
            write(table, *some, name=name)
            state |= dict.fromkeys(some, name)
        table = lake_of(table).table("db.t")
        assert folded(table) == sorted(state.items()) == files(table)
        assert folded(table, "latest-full") == sorted(state.items())


def overwrite(table: Table, ids: list[int], name: str) -> None:
    table.write(rows(*ids, name=name), overwrite=True)


def test_rows_without_a_key_are_there_once_after_a_rescale(tmp_path: Path, system: str) -> None:
    table = make(tmp_path, "'bucket' = '2', 'bucket-key' = 'id'", system, key="")
    write(table, *IDS, *IDS, name="a")
    table = change_buckets(table, 5)
    write(table, *IDS, name="b")
    table.rescale()
    write(table, *IDS, name="c")
    wanted = sorted([(i, name) for i in IDS for name in ("a", "a", "b", "c")])
    assert files(table) == files(table, **{"read.mode": "union"}) == wanted
    changes = [(r["id"], r["name"]) for b in table.tail("earliest", stop="latest") for r in b.to_pylist()]
    assert sorted(changes) == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'bucket' = '-2'", "fixed|-1|number of buckets"),
        ("'bucket' = '2', 'log-store.partitions' = '0'", "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        make(tmp_path, options)


def test_an_older_program_stops_at_a_log_with_other_partitions(tmp_path: Path) -> None:
    """It takes the number of buckets for that of the partitions, as a table without the stored number does."""
    table = change_buckets(make(tmp_path, "more buckets", ", 'log-store.type' = 'files'"), 5)
    schema = table.logical.schema
    older = {key: value for key, value in schema.options.items() if key != "log-store.partitions"}
    with pytest.raises(LakelogError, match="2 log partitions, not 5"):
        list(LogScan(table.logical.with_schema(replace(schema, options=older))).reader.end_offsets())
