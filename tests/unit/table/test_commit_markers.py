"""Commit records have the order of the snapshots in all processes: transactional readers end with the files' rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import TableReplaced, Unavailable
from lakelog.io.clock import now_ms
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.logstore.protocol.control_records import commits_in
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.log.register import register_writer
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import LogState, WriterState, newest_state, state_of
from lakelog.table.model.registrations import Registrations
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, log_of, make, rows, silence

Row = tuple[str, int, str]


class Died(BaseException):
    """The process is killed."""


def seen(table: Table, start: str = "earliest") -> list[Row]:
    batches = table.tail(start, stop="latest", options={"log.consistency": "transactional"})
    return [(r["_row_kind"], r["id"], r["name"]) for batch in batches for r in batch.to_pylist()]


def names(table: Table) -> list[str]:
    return [name for _, _, name in seen(table)]


def folded(table: Table) -> list[tuple[int, str]]:
    return sorted({number: name for _, number, name in seen(table)}.items())


def decided(table: Table, writer: str, epoch: int, name: str) -> Committer:
    """A writer that has decided an epoch with a row of key 1."""
    register_writer(table.logical, writer)
    task = TaskWriter(table.logical, writer, epoch, 0)
    task.write(rows(1, name=name).to_batches()[0])
    committer = Committer(table.logical, writer)
    committer.commit(epoch, [task.finish()])
    return committer


def away(*_: object) -> None:
    raise Unavailable("away")


def owing(table: Table, monkeypatch: pytest.MonkeyPatch, writer: str, epoch: int, name: str) -> Committer:
    """A writer that dies behind the snapshot that holds its epoch, before it has told it."""
    committer = decided(table, writer, epoch, name)
    with monkeypatch.context() as patched:
        patched.setattr(Committer, "append_commit", away)
        assert seal(committer) is not None
    return committer


@pytest.fixture
def table(tmp_path) -> Table:
    return make(tmp_path)


def write(table: Table, name: str) -> None:
    table.write(rows(1, name=name))


@pytest.mark.parametrize("comes_back", ["seal", "next epoch", "end_writer", "take over", "never"])
def test_an_old_row_is_emitted_before_the_newer_one_of_another_writer(table, monkeypatch, comes_back) -> None:
    owner = owing(table, monkeypatch, "stream", 0, "old")
    write(table, "new")
    last = "new"
    if comes_back == "seal":
        seal(owner)
        seal_staged(table.logical)
    elif comes_back == "next epoch":
        last = "newer"
        seal(decided(table, "stream", 1, last))
    elif comes_back == "end_writer":
        table.end_writer("stream")
    elif comes_back == "take over":
        silence(table, "stream")
        take_over_now(table.logical)
    assert names(table) == ["old", "new", *(["newer"] if last == "newer" else [])]
    assert folded(table) == files(table) == [(1, last)]
    assert seen(table, "latest-full") == [("+I", 1, last)]
    assert [r.epoch for r in table.logical.decided.of("stream")] == []


def test_an_epoch_that_its_writer_marks_again_is_returned_once(table, monkeypatch) -> None:
    owner = decided(table, "stream", 0, "old")
    told: Callable[..., None] = Committer.append_commit

    def paused(self: Committer, records: list[EpochRecord]) -> None:
        monkeypatch.undo()
        write(table, "new")
        told(self, records)

    monkeypatch.setattr(Committer, "append_commit", paused)
    seal(owner)
    assert names(table) == ["old", "new"]
    log = log_of(table)
    writers = [c.writer for bucket in (0, 1) for c in commits_in(reader_for(log).read(bucket, 0))]
    assert writers.count("stream") == 2


def test_a_resumed_writer_appends_all_missing_markers_in_order(table, monkeypatch) -> None:
    owing(table, monkeypatch, "z", 0, "1")
    owner = owing(table, monkeypatch, "m", 0, "2")
    owing(table, monkeypatch, "a", 0, "3")
    seal(owner)
    assert names(table) == ["1", "2", "3"]
    assert table.logical.decided.all() == []


def _dies_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Lets the process die before or behind a step of the marking, by its number; returns what it did before."""
    done: list[str] = []

    def stepping(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def run(self: Any, *given: Any) -> None:
            for moment in ("before", "behind"):
                if len(done) == step:
                    raise Died
                done.append(f"{moment} {name}")
                if moment == "before":
                    real(self, *given)

        monkeypatch.setattr(owner, name, run)

    stepping(Committer, "append_commit")
    stepping(DecidedEpochs, "forget")
    return done


STEPS = 14
"""Records that decide nothing are forgotten, then two steps of three groups of markers; each before and after."""


@pytest.mark.parametrize("step", range(STEPS + 1))
@pytest.mark.parametrize("next_one", ["another", "the same", "seal"])
def test_a_death_at_any_step_of_the_marking_is_repaired(table, monkeypatch, step, next_one) -> None:
    owing(table, monkeypatch, "z", 0, "1")
    owing(table, monkeypatch, "a", 0, "2")
    last = decided(table, "m", 0, "3")
    with monkeypatch.context() as patched:
        done = _dies_at(patched, step)
        if step < STEPS:
            with pytest.raises(Died):
                seal(last)
        else:
            seal(last)
        assert len(done) == step
    shown = names(table)
    assert shown == ["1", "2", "3"][: len(shown)]
    expected = ["1", "2", "3", "4"]
    if next_one == "another":
        write(table, "4")
    elif next_one == "the same":
        seal(decided(table, "m", 1, "4"))
    else:
        table.seal()
        expected.pop()
    assert names(table) == expected
    assert folded(table) == files(table)
    assert [[r.epoch for r in table.logical.decided.of(writer)] for writer in "zam"] == [[], [], []]


def test_no_newer_marker_is_appended_while_an_older_one_fails(table, monkeypatch) -> None:
    owing(table, monkeypatch, "stream", 0, "old")
    told: Callable[..., None] = Committer.append_commit

    def refused(self: Committer, records: list[EpochRecord]) -> None:
        if records[0].writer == "stream":
            raise Unavailable("away")
        told(self, records)

    newer = decided(table, "other", 0, "new")
    with monkeypatch.context() as patched:
        patched.setattr(Committer, "append_commit", refused)
        assert seal(newer) is not None
    assert newer.lacks_markers
    assert names(table) == []
    seal(newer)
    assert not newer.lacks_markers
    assert names(table) == ["old", "new"]


def test_an_epoch_that_its_owner_decided_again_after_the_snapshot_has_no_markers(table, monkeypatch) -> None:
    seal(decided(table, "stream", 0, "old"))
    register_writer(table.logical, "stream")
    late = TaskWriter(table.logical, "stream", 0, 0)
    late.write(rows(1, name="late").to_batches()[0])
    late_record = EpochRecord("stream", 0, now_ms(), (late.finish(),), {})
    table.logical.decided.decide(late_record)  # and dies before it sees the snapshot
    write(table, "new")
    assert names(table) == ["old", "new"]
    assert table.logical.decided.all() == []


def test_a_seal_with_emit_mode_file_also_appends_missing_markers(table, monkeypatch) -> None:
    owing(table, monkeypatch, "stream", 0, "old")
    seal_staged(table.logical.with_hints({"emit.mode": "file"}))
    assert names(table) == ["old"]


def test_a_writer_without_a_log_also_appends_missing_markers_of_others(table, monkeypatch) -> None:
    owing(table, monkeypatch, "stream", 0, "old")
    decided(table, "other", 0, "new")
    without = table.logical.with_hints({"log-store.enabled": "false"})
    seal(_known(Committer(without, "other")))
    assert table.logical.decided.all() == []
    assert names(table) == ["old", "new"]


def _known(committer: Committer) -> Committer:
    committer.commit(0, [])
    return committer


def test_a_single_writer_reads_no_lease(table, monkeypatch) -> None:
    monkeypatch.setattr(Registrations, "all", away)
    for epoch in range(2):
        committer = decided(table, "stream", epoch, str(epoch))
        seal(committer)
        assert not committer.lacks_markers
    assert names(table) == ["0", "1"]


def test_a_snapshot_says_which_of_its_epochs_came_in_which_snapshot(table, monkeypatch) -> None:
    owing(table, monkeypatch, "stream", 0, "1")
    owing(table, monkeypatch, "other", 0, "2")
    owing(table, monkeypatch, "stream", 1, "3")
    snapshot, state = newest_state(table.logical.store)
    assert snapshot is not None
    assert dict(state.writers["stream"].sealed_in) == {0: 1, 1: 3}
    assert dict(state.writers["other"].sealed_in) == {0: 2}
    assert state_of(snapshot) == state


def test_a_state_without_the_numbers_of_snapshots_is_read() -> None:
    state = LogState({"w": WriterState(0, {}, 0, unmarked={0: "abc"}, sealed_in={0: 7})})
    properties = state.to_properties()
    old = {key: value.replace('"sealed_in":{"0":7}', '"later":1') for key, value in properties.items()}
    assert old != properties
    found = [state_of(_Snapshot(p)).writers["w"] for p in (properties, old)]  # type: ignore[arg-type, union-attr]
    assert [dict(w.sealed_in) for w in found] == [{0: 7}, {}]
    assert all(dict(w.unmarked) == {0: "abc"} for w in found)


class _Snapshot:
    id = 1

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties


def test_no_marker_is_appended_by_the_records_of_another_table(table, monkeypatch) -> None:
    """The table was replaced after its records were read: they may be those of the table that has its path now."""
    owing(table, monkeypatch, "first", 0, "a")
    before = ends(table)
    with monkeypatch.context() as patched:
        patched.setattr(DynamicTable, "check_identity", replaced)
        seal_staged(table.logical)
    assert ends(table) == before
    seal_staged(table.logical)
    assert ends(table) != before


def ends(table: Table) -> dict[int, int]:
    return reader_for(table.logical.log).end_offsets()


def replaced(*_: object) -> None:
    raise TableReplaced("replaced")
