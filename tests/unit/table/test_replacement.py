"""UPDATE, DELETE and overwrites of tables without a key, beside a log of input rows (RFC 21)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keyless_tables import COMMITTED, OLD, Rows, arrow, check, files, folded, make, write
from lakelog.errors import CommitConflict, CommitUnknown, InvalidRequest, Unavailable
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.lake.table import Table
from lakelog.logstore.clients import close_clients
from lakelog.options.option import Options
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.service.optimizer.runner import RunContext, run_action
from lakelog.table.commit import missing_changes
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.missing_changes import _MissingChanges
from lakelog.table.commit.take_over import take_over_now
from lakelog.table.health.actions import plan_actions
from lakelog.table.health.collect import collect_table_stats
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.log_state import newest_state
from lakelog.table.model.registrations import BATCH
from log_tables import silence


def delete_ones(table: Table) -> None:
    """An overwrite of one partition, which needs no Spark."""
    write(table, [(2, "a")], overwrite={"p": "a"})


AFTER = [(2, "a"), *OLD[3:]]


def test_the_log_gets_only_the_rows_that_change(tmp_path: Path) -> None:
    _, table = make(tmp_path)
    delete_ones(table)
    changes = [row for batch in table.tail("earliest", stop="latest") for row in batch.to_pylist()]
    assert len(changes) == len(OLD) + 2
    assert [row["id"] for row in changes if row["_row_kind"] == "-D"] == [1, 1]


@pytest.mark.parametrize("step", ["_decide", "_seal", "_commit"])
@pytest.mark.parametrize("log", ["embedded", "files"])
def test_readers_that_begin_while_changes_are_appended_have_the_rows_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, step: str
) -> None:
    _, table = make(tmp_path, log)
    wanted = [(2, "a"), (3, "b"), (4, "b"), (8, "a")]
    readings: list[Rows] = []
    call = getattr(_MissingChanges, step)

    def between(changes: _MissingChanges, *given: object) -> object:
        monkeypatch.undo()
        readings.extend([files(table), files(table, **{"read.mode": "union"}), folded(table, "latest-full")])
        return call(changes, *given)

    monkeypatch.setattr(_MissingChanges, step, between)
    write(table, [(2, "a"), (8, "a")], overwrite={"p": "a"})
    assert readings == [wanted] * 3
    check(table, wanted)


def elsewhere(act: Callable[[], object]) -> None:
    """Calls ``act`` in another thread, which has log clients of its own."""

    def other() -> None:
        act()
        close_clients()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(other).result()


def without_log(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Does something while the log does not answer: its changes are missing."""

    def refuse(*given: object) -> None:
        raise Unavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(_MissingChanges, "run", refuse)
        act()


def test_a_statement_succeeds_while_the_log_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commit of any writer appends its changes first."""
    _, table = make(tmp_path)
    without_log(monkeypatch, lambda: delete_ones(table))
    assert files(table) == AFTER
    assert folded(table) == OLD
    for options in ({}, COMMITTED):
        assert folded(table, "latest-full", **options) == AFTER
    write(table, [(9, "b")])
    check(table, [*AFTER, (9, "b")])


@pytest.mark.parametrize("consistency", ["eventual", "transactional"])
def test_a_reader_that_starts_while_changes_are_owed_gets_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consistency: str
) -> None:
    _, table = make(tmp_path)
    without_log(monkeypatch, lambda: delete_ones(table))
    read: list[tuple[int, str]] = []
    tail = table.tail("latest-full", options={"log.consistency": consistency})
    while len(read) < len(AFTER):
        read += [(row["id"], row["p"]) for row in next(tail).to_pylist()]
    table.seal()
    write(table, [(9, "b")])
    while (9, "b") not in read:
        read += [(row["id"], row["p"]) for row in next(tail).to_pylist()]
    assert sorted(read) == [*AFTER, (9, "b")]


def test_expiry_keeps_the_snapshots_whose_changes_are_owed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    without_log(monkeypatch, lambda: delete_ones(table))
    without_log(monkeypatch, lambda: [write(table, [(n, "c")]) for n in range(3)])
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.seal()
    check(table, [*AFTER, *((n, "c") for n in range(3))])


def test_the_optimizer_appends_the_changes_of_a_table_at_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    without_log(monkeypatch, lambda: delete_ones(table))
    now = newest_state(table.logical.store)[0].time_millis + 60_000  # type: ignore[union-attr]
    options = Options(table.logical.schema.options)
    for action in plan_actions(collect_table_stats(table.logical), options, now):
        assert "are not in the log" in action.reason
        run_action(table.logical, action.kind, RunContext(lambda: False))
    check(table, AFTER)
    assert plan_actions(collect_table_stats(table.logical), options, now) == ()


def test_changes_that_another_engine_made_unknown_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    without_log(monkeypatch, lambda: delete_ones(table))
    missing = newest_state(table.logical.store)[1].missing
    Path(table.logical.store.paths.snapshot(min(missing.values()) - 1)).unlink()
    table.seal()
    state = newest_state(table.logical.store)[1]
    assert not state.missing
    assert state.ahead
    assert files(table) == AFTER


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Calls ``act`` in another thread, before the next commit that replaces files."""
    real = FileStore.commit

    def commit(store: FileStore, request: CommitRequest) -> Snapshot:
        if request.kind == OVERWRITE:
            monkeypatch.undo()
            elsewhere(act)
        return real(store, request)

    monkeypatch.setattr(FileStore, "commit", commit)


@pytest.mark.parametrize(
    ("act", "after"),
    [
        (lambda table: write(table, [(8, "a"), (9, "b")]), [*AFTER, (9, "b")]),
        (lambda table: table.compact(full=True), AFTER),
        (lambda table: write(table, [(5, "a"), (6, "a")], overwrite={"p": "a"}), AFTER),
    ],
    ids=["rows", "compaction", "overwrite"],
)
def test_what_others_commit_meanwhile_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Table], object], after: Rows
) -> None:
    _, table = make(tmp_path)
    meanwhile(monkeypatch, lambda: act(table))
    delete_ones(table)
    check(table, after)


def test_a_statement_on_a_file_that_another_one_replaced_has_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakelog.table.staging.task_writer import TaskWriter
    from lakelog.table.write.replace_files import commit_rewrite, files_to_rewrite
    from lakelog.table.write.replaced_rows import files_alone

    _, table = make(tmp_path)
    names = files_to_rewrite(table.logical)
    task = TaskWriter(files_alone(table.logical), "w", 0, 0, replaces=True)
    task.write(arrow(OLD[1:]).to_batches()[0])
    meanwhile(monkeypatch, lambda: delete_ones(table))
    with pytest.raises(CommitConflict):
        commit_rewrite(table.logical, "w", [task.finish()], names)
    check(table, AFTER)


def test_old_partitions_expire(tmp_path: Path) -> None:
    lake, table = make(tmp_path)
    options = "'partition.expiration-time' = '1 d', 'partition.timestamp-formatter' = 'yyyy-MM-dd'"
    lake.sql(f"alter table db.t set tblproperties ({options})")
    table = lake.table("db.t")
    write(table, [(1, "2020-01-01"), (2, "2999-01-01")])
    assert table.expire_partitions() == [{"p": "2020-01-01"}]
    check(table, [*OLD, (2, "2999-01-01")])


@pytest.mark.parametrize("has_happened", [True, False])
def test_a_commit_whose_outcome_is_unknown_is_repeated_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    _, table = make(tmp_path)
    real = FileStore.commit

    def commit(store: FileStore, request: CommitRequest) -> Snapshot:
        if request.kind == OVERWRITE:
            if has_happened:
                real(store, request)
            raise CommitUnknown("the answer was lost")
        return real(store, request)

    monkeypatch.setattr(FileStore, "commit", commit)
    writer = table.writer(overwrite={"p": "a"})
    writer.write(arrow([(2, "a")]))
    with pytest.raises(CommitUnknown):
        writer.commit()
    monkeypatch.undo()
    write(table, [(7, "a")])
    writer.commit()
    check(table, [*AFTER, (7, "a")] if has_happened else AFTER)


@pytest.mark.parametrize("step", ["_decide", "_seal", "_commit"])
def test_two_processes_that_append_the_same_changes_leave_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """One is suspended for longer than its lease, at any step; the other one does all of it."""
    _, table = make(tmp_path)
    real = getattr(_MissingChanges, step)

    def suspended(changes: _MissingChanges, *given: Any) -> Any:
        monkeypatch.undo()
        table.logical.io.delete_dir(f"{table.logical.path}/lakelog/publish")
        elsewhere(lambda: take_over_all(table))
        return real(changes, *given)

    monkeypatch.setattr(_MissingChanges, step, suspended)
    delete_ones(table)
    take_over_all(table)
    check(table, AFTER)


def take_over_all(table: Table) -> None:
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)


def unmarked(monkeypatch: pytest.MonkeyPatch, table: Table, rows: Rows, **how: Any) -> None:
    """Writes rows; the process dies before the commit markers of its snapshot."""

    def die(self: Committer, records: Sequence[EpochRecord]) -> None:
        raise Unavailable("died")

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "append_commit", die)
        write(table, rows, **how)


def test_markers_have_the_order_of_the_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes delete rows of earlier epochs of any writer, so their markers follow (``folded`` checks it)."""
    _, table = make(tmp_path)
    for overwrite in (False, True, True):
        unmarked(monkeypatch, table, [(1, "a")] if overwrite else [(1, "a"), (2, "a"), (3, "a")], overwrite=overwrite)
        unmarked(monkeypatch, table, [(4, "a"), (5, "a")])
    take_over_all(table)
    check(table, [(1, "a"), (4, "a"), (5, "a"), *OLD[3:]])


def test_a_proposal_of_an_earlier_version_is_taken_back(tmp_path: Path) -> None:
    """Before RFC 21 a statement proposed an epoch in the log, and its snapshot decided it. This one died before."""
    _, table = make(tmp_path)
    logical, writer = table.logical, "replace-old-12345678"
    task = missing_changes.TaskWriter(logical, writer, 0, lane=0, stages=False)
    logical.registered.register(writer, {0: 0, 1: 0}, BATCH)
    task.write(arrow([(7, "a")]).to_batches()[0])
    logical.decided.decide(EpochRecord(writer, 0, 0, (task.finish(),), {0: 0, 1: 0}, once=True, proposed=True))
    take_over_all(table)
    check(table, OLD)


def test_a_use_that_writes_only_the_log_cannot_replace_rows(tmp_path: Path) -> None:
    _, table = make(tmp_path)
    with pytest.raises(InvalidRequest, match="emit.mode"):
        write(table, [(1, "a")], overwrite=True, options={"emit.mode": "log"})


def test_the_files_alone_can_be_replaced(tmp_path: Path) -> None:
    _, table = make(tmp_path)
    write(table, [(2, "a")], overwrite={"p": "a"}, options={"emit.mode": "file"})
    assert files(table) == AFTER
    assert folded(table) == OLD
