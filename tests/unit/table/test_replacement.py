"""UPDATE, DELETE and overwrites of tables without a key, beside a log of input rows: both stores get the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keyless_tables import COMMITTED, OLD, Rows, arrow, check, files, folded, make, write
from lakelog.errors import CommitConflict, CommitUnknown, Fenced, InvalidRequest, Unavailable
from lakelog.filestore.commit.request import CommitRequest
from lakelog.filestore.store import FileStore
from lakelog.io import clock
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.logstore.clients import close_clients
from lakelog.paimon.metadata.snapshot import OVERWRITE, Snapshot
from lakelog.table.commit import log_repair, replacement
from lakelog.table.commit.replacement import _Replacement
from lakelog.table.commit.take_over import end_writer, take_over_now
from lakelog.table.model.log_state import newest_state
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


def test_a_reader_of_committed_rows_sees_a_replacement_once_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, table = make(tmp_path)
    seen: list[Rows] = []

    def between(made: _Replacement, *given: Any) -> Any:
        seen.append(folded(table, **COMMITTED))
        seen.append(folded(table, "latest-full", **COMMITTED))
        seen.append(files(table))
        return real(made, *given)

    real = _Replacement._committed
    monkeypatch.setattr(_Replacement, "_committed", between)
    delete_ones(table)
    assert seen == [OLD] * 3
    check(table, AFTER)


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Calls ``act`` in another thread, once the rows of the next replacement are in the log."""
    real = _Replacement._committed

    def committed(made: _Replacement, *given: Any) -> Any:
        monkeypatch.undo()
        elsewhere(act)
        return real(made, *given)

    monkeypatch.setattr(_Replacement, "_committed", committed)


def elsewhere(act: Callable[[], None]) -> None:
    """Calls ``act`` in another thread, which has log clients of its own."""

    def other() -> None:
        act()
        close_clients()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(other).result()


def test_rows_that_come_meanwhile_are_replaced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    meanwhile(monkeypatch, lambda: write(table, [(8, "a"), (9, "b")]))
    delete_ones(table)
    check(table, [*AFTER, (9, "b")])


def test_a_compaction_meanwhile_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    meanwhile(monkeypatch, lambda: table.compact(full=True))
    delete_ones(table)
    check(table, AFTER)


def test_two_overwrites_at_once_leave_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    meanwhile(monkeypatch, lambda: write(table, [(5, "a"), (6, "a")], overwrite={"p": "a"}))
    delete_ones(table)
    check(table, AFTER)


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


def test_a_process_that_slept_for_hours_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshots after the take-over keep who must not commit any more, for longer than other batch writers."""
    _, table = make(tmp_path)

    def sleep() -> None:
        (writer,) = (name for name in table.logical.registered.writers() if name.startswith("replace-"))
        silence(table, writer)
        take_over_now(table.logical)
        monkeypatch.setattr(clock, "now_ms", lambda: real() + 5 * 3_600_000)
        write(table, [(9, "b")])
        assert writer in newest_state(table.logical.store)[1].writers

    real = clock.now_ms
    meanwhile(monkeypatch, sleep)
    with pytest.raises(Fenced):
        delete_ones(table)
    monkeypatch.undo()
    take_over_now(table.logical)
    check(table, [*OLD, (9, "b")])


def lose_commit(monkeypatch: pytest.MonkeyPatch, has_happened: bool) -> None:
    """The next commit that replaces files has no answer."""
    real = FileStore.commit

    def commit(store: FileStore, request: CommitRequest) -> Snapshot:
        if request.kind == OVERWRITE:
            if has_happened:
                real(store, request)
            else:
                assert request.prepare is not None
                request.prepare(store.latest_snapshot())
            raise CommitUnknown("the answer was lost")
        return real(store, request)

    monkeypatch.setattr(FileStore, "commit", commit)


def test_a_lost_answer_of_the_commit_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    lose_commit(monkeypatch, has_happened=True)
    delete_ones(table)
    check(table, AFTER)


def test_a_lost_commit_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    lose_commit(monkeypatch, has_happened=False)
    with pytest.raises(CommitConflict, match="Try again"):
        delete_ones(table)
    monkeypatch.undo()
    check(table, OLD)
    delete_ones(table)
    check(table, AFTER)


@pytest.mark.parametrize("has_happened", [True, False])
def test_a_commit_whose_outcome_stays_unknown_is_repeated_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_happened: bool
) -> None:
    """The storage answers again after the statement has failed."""
    _, table = make(tmp_path)
    lose_commit(monkeypatch, has_happened)

    def unavailable(*given: object) -> bool:
        raise Unavailable("no answer")

    monkeypatch.setattr(replacement, "settle", unavailable)
    writer = table.writer(overwrite={"p": "a"})
    writer.write(arrow([(2, "a")]))
    with pytest.raises(CommitUnknown):
        writer.commit()
    monkeypatch.undo()
    write(table, [(7, "a")])
    writer.commit()
    take_over_all(table)
    check(table, [*AFTER, (7, "a")] if has_happened else AFTER)


def take_over_all(table: Table) -> None:
    for writer in table.logical.registered.writers():
        silence(table, writer)
    take_over_now(table.logical)


def test_end_writer_ends_a_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)

    def end() -> None:
        (writer,) = (name for name in table.logical.registered.writers() if name.startswith("replace-"))
        end_writer(table.logical, writer)

    meanwhile(monkeypatch, end)
    with pytest.raises(Fenced):
        delete_ones(table)
    check(table, OLD)


def test_late_corrections_of_a_replacement_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process was suspended while it healed the log to its proposal, and ended after the corrections."""
    _, table = make(tmp_path)

    class Ended(BaseException):
        """The process has ended."""

    def suspended(*given: Any) -> Any:
        monkeypatch.setattr(log_repair, "heal", heal)
        elsewhere(lambda: take_over_all(table))
        return heal(*given)

    def committed(made: _Replacement, *given: Any) -> Any:
        made.undo = lambda: None  # type: ignore[method-assign]
        elsewhere(lambda: write(table, [(9, "b"), (10, "b")]))  # so that the log is read
        monkeypatch.setattr(log_repair, "heal", suspended)
        made._committer.propose(made._results)
        raise Ended

    heal = log_repair.heal
    monkeypatch.setattr(_Replacement, "_committed", committed)
    with pytest.raises(Ended):
        delete_ones(table)
    after = [(9, "b"), (10, "b")]
    assert folded(table) != [*OLD, *after]
    for _ in range(3):
        take_over_all(table)
    check(table, [*OLD, *after])


def test_a_proposal_that_arrives_late_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = make(tmp_path)
    late: list[tuple[str, bytes]] = []
    create = LocalFileIO.create

    def held_back(io: LocalFileIO, path: str, data: bytes) -> bool:
        if "/replace-" in path and "/epoch-" in path:
            late.append((path, data))
            raise CommitUnknown("no answer")
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", held_back)
    with pytest.raises(CommitUnknown):
        delete_ones(table)
    monkeypatch.undo()
    Path(late[0][0]).parent.mkdir(parents=True)
    Path(late[0][0]).write_bytes(late[0][1])
    assert folded(table) == files(table) == OLD
    os.utime(late[0][0], (0, 0))
    take_over_now(table.logical)
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
