"""Rows that reach the log after their writer was taken over are taken back, although their driver never returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from failing_jobs import Job, net
from failing_jobs import files as bag
from lakelog.errors import CommitDecided, Unavailable
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for, reader_for
from lakelog.logstore.formats import log_format
from lakelog.logstore.protocol.header import CORRECTION, decode_header, encode_header, of_kinds
from lakelog.logstore.protocol.healing_plan import Healing
from lakelog.table.commit import late_rows
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal_staged
from lakelog.table.commit.take_over import take_over, take_over_now
from lakelog.table.log.register import register_writer
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.model.registrations import BATCH, Registrations
from lakelog.table.staging import task_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import JSON, files, folded, log_of, make, rows, silence


def append_late(table: Table, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A task appends, its writer is taken over, and the task, suspended behind its lease check, appends again."""
    if kind == BATCH:
        register_writer(table.logical, "lost", BATCH)
    else:
        Job(table, writer="lost").epoch(0, [2])
    task = TaskWriter(table.logical, "lost", 0 if kind == BATCH else 1, 0)
    append(task, "early")
    silence(table, "lost")
    assert list(take_over(table.logical)) == ["lost"]
    monkeypatch.setattr(task_writer, "check_lease", lambda *_: None)
    append(task, "late")
    monkeypatch.undo()
    assert (1, "late") in folded(table)


def append(task: TaskWriter, name: str) -> None:
    task.write(pa.record_batch({"id": pa.array([1, 3, 4], pa.int32()), "name": [name] * 3}))
    task.flush_log()


@pytest.mark.parametrize("kind", ["stream", "batch"])
@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_maintenance_takes_back_late_rows(
    tmp_path: Path, mode: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    table.write(rows(1, 2))
    append_late(table, monkeypatch, kind)
    take_over_now(table.logical)
    assert folded(table) == files(table) == [(1, "a"), (2, "a" if kind == "batch" else "e0")]
    assert list(take_over(table.logical)) == []


@pytest.mark.parametrize("kind", ["stream", "batch"])
@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_a_writer_of_other_keys_reports_late_rows(
    tmp_path: Path, mode: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    with table.writer() as writer:
        writer.write(rows(1, 2))
        writer.commit()
        append_late(table, monkeypatch, kind)
        writer.write(rows(*range(10, 30)))
        writer.commit()
    monkeypatch.setattr("lakelog.table.commit.take_over.find_late_rows", lambda _: None)
    take_over_now(table.logical)
    want = [(1, "a"), (2, "a" if kind == "batch" else "e0"), *((n, "a") for n in range(10, 30))]
    assert folded(table) == files(table) == want


def test_maintenance_continues_despite_an_unreadable_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path)
    log = log_of(table)
    appender = appender_for(log)
    appender.append(
        0, Records(pa.array([b"k"], pa.large_binary()), pa.array([b"v"], pa.large_binary()), b"9|d|foreign|0|y")
    )
    appender.flush()
    assert list(take_over(table.logical)) == []
    assert "late rows not found" in caplog.text


@pytest.mark.parametrize("others", [[seal_staged], [seal_staged, take_over_now]], ids=["sealed", "taken over"])
@pytest.mark.parametrize("kind", ["stream", "batch"])
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_late_correction_by_a_suspended_helper_is_reverted(
    tmp_path: Path, key: str, kind: str, others: list[Callable[[DynamicTable], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper is suspended before it appends what another process then does, too; it appends, and dies."""
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'", key=key)
    table.write(rows(1))
    decide_none_of_its_rows(table, kind, monkeypatch)
    silence(table, "lost")
    plan = Healing.plan
    with monkeypatch.context() as patched, pytest.raises(Unavailable):

        def suspended(self: Healing, *given: pa.Table) -> object:
            planned = plan(self, *given)
            if planned:
                patched.setattr(Healing, "plan", plan)
                for work in others:
                    work(table.logical)
                patched.setattr(Healing, "plan", Mock(side_effect=Unavailable("dies")))
            return planned

        patched.setattr(Healing, "plan", suspended)
        seal_staged(table.logical)
    assert net(table)[2, "lost"] == -1
    take_over_now(table.logical)
    take_over_now(table.logical)
    assert net(table) == net(table, "latest-full") == bag(table) == {(1, "a"): 1}
    assert list(take_over(table.logical)) == []


@pytest.mark.parametrize("beside", ["no other writer", "a stream", "a later batch"])
@pytest.mark.parametrize("ends", ["closes", "is taken over"])
def test_a_second_correction_just_before_its_writer_is_forgotten_is_reverted(
    tmp_path: Path, ends: str, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper appends what the writer has appended, after the last reading of the log, and dies."""
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'", key="")
    if beside == "a stream":
        register_writer(table.logical, "query")
    writer = table.writer()
    writer.write(rows(1, 2))
    writer.flush()
    log = log_of(table)
    forget = Registrations.forget

    def again(self: Registrations, name: str) -> None:
        monkeypatch.undo()
        for bucket, end in reader_for(log).end_offsets().items():
            for records in [*reader_for(log).chunks(bucket, 0, end)]:
                corrections = of_kinds(records, (CORRECTION,))
                keys, values = (corrections.column(name).combine_chunks() for name in ("key", "value"))
                appender_for(log).append(bucket, Records(keys, values, corrections.column("header").to_pylist()))
        appender_for(log).flush()
        forget(self, name)

    monkeypatch.setattr(Registrations, "forget", again)
    if ends == "closes":
        writer.close()
    else:
        silence_all(table)
        take_over_now(table.logical)
    if beside == "a later batch":
        table.write(rows(7))
    silence_all(table)
    take_over_now(table.logical)
    take_over_now(table.logical)
    assert net(table) == net(table, "latest-full") == bag(table) == ({(7, "a"): 1} if "batch" in beside else {})


@pytest.mark.parametrize("later", [False, True], ids=["at rest", "beside a later batch"])
def test_a_correction_of_an_accepted_row_that_arrives_after_its_writer_has_closed_is_reverted(
    tmp_path: Path, later: bool
) -> None:
    """A helper has read the log before the decision, and appends its correction after the writer has gone."""
    table = make(tmp_path, JSON + ", 'log.changelog-mode' = 'all'", key="")
    table.write(rows(1))
    log = log_of(table)
    reader, appender = reader_for(log), appender_for(log)
    for bucket, end in reader.end_offsets().items():
        for record in [row for part in reader.chunks(bucket, 0, end) for row in part.to_pylist() if row["value"]]:
            head = decode_header(record["header"], record["offset"])
            late = encode_header(CORRECTION, head.writer, head.epoch, head.attempt, record["offset"], -1)
            value = pa.array([log_format("debezium-json").inverse(record["value"])], pa.large_binary())
            appender.append(bucket, Records(pa.nulls(1, pa.large_binary()), value, late))
    appender.flush()
    assert net(table) == {}
    if later:
        table.write(rows(7))
    take_over_now(table.logical)
    silence_all(table)
    take_over_now(table.logical)
    want = {(1, "a"): 1, (7, "a"): 1} if later else {(1, "a"): 1}
    assert net(table) == net(table, "latest-full") == bag(table) == want


def test_several_late_attempts_of_a_writer_are_taken_back_from_the_first_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'", key="")
    register_writer(table.logical, "lost", BATCH)
    tasks = [TaskWriter(table.logical, "lost", 0, lane) for lane in range(3)]
    silence(table, "lost")
    assert list(take_over(table.logical)) == ["lost"]
    with monkeypatch.context() as patched:
        patched.setattr(task_writer, "check_lease", lambda *_: None)
        for lane, task in enumerate(tasks):
            append(task, f"late {lane}")
    take_over_now(table.logical)
    assert net(table) == bag(table) == {}


def test_a_search_that_fails_when_a_writer_is_forgotten_is_left_to_the_next_take_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        writer.commit()
        monkeypatch.setattr(late_rows, "reader_for", Mock(side_effect=Unavailable("no broker")))
    monkeypatch.undo()
    assert "late rows" in caplog.text
    assert len(table.logical.registered.writers()) == 1
    take_over_now(table.logical)
    assert folded(table) == files(table) == [(1, "a")]
    assert table.logical.registered.writers() == []


def silence_all(table: Table) -> None:
    for writer in table.logical.registered.writers():
        silence(table, writer)


def decide_none_of_its_rows(table: Table, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer appends, decides that none of its rows count, and dies before it heals the log."""
    register_writer(table.logical, "lost", kind)
    task = TaskWriter(table.logical, "lost", 0, 0)
    task.write(pa.record_batch({"id": pa.array([2], pa.int32()), "name": ["lost"]}))
    task.flush_log()
    with monkeypatch.context() as patched, pytest.raises((Unavailable, CommitDecided)):
        patched.setattr(Committer, "_heal", Mock(side_effect=Unavailable("dies")))
        Committer(table.logical, "lost", once=kind == BATCH).commit(0, [])
