"""At every storage call of a write that rejects rows, and of a replay of them: the process dies there, or its answer is
lost. Good and rejected rows together are what was sent, each once."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from depth import Depth
from faults import DIE_AFTER, FAIL_BEFORE, LATE, LOST, Died, FaultPlan, FaultyFileIO
from lakelog import connect
from lakelog.errors import CommitConflict, LakelogError
from lakelog.filestore.store import FileStore
from lakelog.lake.table import Table
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.log.register import register_follower
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.rejected.rows import Rejects
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write.materializer import LogMaterializer
from lakelog.table.write.replay_rejected import ReplaySummary, replay_rejected
from lakelog.table.write.restore import roll_back
from lakelog.table.write.table_writer import TableWriter
from log_tables import JSON, log_of, silence

OTHERS = (FAIL_BEFORE, LOST, LATE)
"""Beside death, at each second call one of them in turn; at night both at each call."""
LOG = ", 'log-store.enabled' = 'true', 'commit.interval' = '1 ms'"
JSON_LOG = f"{LOG}{JSON}"
Work = Callable[[DynamicTable], object]


def make(place: Path, more: str, columns: str = "id int, name string not null") -> Table:
    """A table without a key, which would hide a row that is there twice."""
    lake = connect(warehouse=str(place / "warehouse"))
    lake.sql(
        f"create table db.t ({columns}) using lakelog tblproperties ('bucket' = '1', 'bucket-key' = 'id', "
        f"'on-bad-record' = 'keep', 'write-only' = 'true', 'commit.max-retry-wait' = '1 ms'{more})"
    )
    return lake.table("db.t")


def opened(place: Path) -> Table:
    return connect(warehouse=str(place / "warehouse")).table("db.t")


def given(ids: range, bad: int) -> pa.RecordBatch:
    """Rows of which each ``bad``-th has no name."""
    return pa.record_batch({"id": pa.array(ids, pa.int32()), "name": [None if i % bad == 0 else "a" for i in ids]})


def good(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def kept(place: Path) -> list[int]:
    """The ids of the rejected rows."""
    rows = connect(warehouse=str(place / "warehouse")).table("db.t$rejected").scan(["text"]).to_arrow()
    return sorted(int(text.partition("id=")[2].partition(",")[0]) for text in rows.column("text").to_pylist())


def in_log(table: Table) -> list[int]:
    """The net rows of the log."""
    found: list[int] = []
    for batch in table.tail("earliest", stop="latest"):
        for kind, number in zip(batch["_row_kind"].to_pylist(), batch["id"].to_pylist(), strict=True):
            found.append(number) if kind in ("+I", "+U") else found.remove(number)
    return sorted(found)


def meet(made: Path, place: Path, work: Work, plan: FaultPlan) -> Table:
    """On a copy of a table a process meets a fault; the table as the next one finds it."""
    shutil.copytree(made, place)
    table = opened(place).logical
    broken = replace(table, location=replace(table.location, io=FaultyFileIO(table.io, plan)))
    with contextlib.suppress(Died, LakelogError):
        work(broken)
    for writer in table.registered.writers():  # a dead process renews nothing
        table.registered.drop(writer)
    plan.arrive()
    return opened(place)


def every_fault(tmp_path: Path, depth: Depth, work: Work, check: Callable[[Table, Path], None], least: int) -> None:
    counting = FaultPlan()
    check(meet(tmp_path / "made", tmp_path / "whole", work, counting), tmp_path / "whole")
    assert len(counting.calls) >= least
    assert any("/lakelog/rejected/" in call.path for call in counting.calls)
    for call in depth.some(counting.calls):
        kinds = (DIE_AFTER, OTHERS[call.number // 2 % len(OTHERS)])
        for kind in kinds if depth.is_exhaustive else (kinds[call.number % 2],):
            place = tmp_path / f"{kind} {call.number}"
            check(meet(tmp_path / "made", place, work, FaultPlan({call.number: kind})), place)
            shutil.rmtree(place)


def appended(table: Table, ids: range) -> None:
    """Records of another producer; each third one is no record."""
    log = log_of(table)
    text = '{"before":null,"after":{"id":%d,"name":"a"},"op":"c"}'
    values = [(f"no record: id={i}, at all" if i % 3 == 0 else text % i).encode() for i in ids]
    appender = appender_for(log)
    appender.append(
        0, Records(pa.nulls(len(ids), pa.large_binary()), pa.array(values, pa.large_binary()), UNOWNED_HEADER)
    )
    appender.flush()


def test_a_follower_rejects_each_record_once(tmp_path, depth: Depth) -> None:
    table = make(tmp_path / "made", JSON_LOG)
    register_follower(table.logical)
    appended(table, range(6))
    list(table.follow("latest"))
    appended(table, range(6, 12))

    def check(table: Table, place: Path) -> None:
        assert (good(table), kept(place)) in (([1, 2, 4, 5], [0, 3]), ([1, 2, 4, 5, 7, 8, 10, 11], [0, 3, 6, 9]))
        appended(table, range(12, 18))
        list(table.follow("latest"))
        assert good(table) == [i for i in range(18) if i % 3]
        assert kept(place) == list(range(0, 18, 3))

    every_fault(tmp_path, depth, lambda broken: list(LogMaterializer(broken).follow("latest")), check, 6)


@pytest.mark.parametrize("more", [LOG, ""], ids=["log", "files"])
def test_a_writer_rejects_with_its_epoch_or_not_at_all(tmp_path, more, depth: Depth) -> None:
    make(tmp_path / "made", more)

    def write(table: DynamicTable) -> None:
        with TableWriter(table, may_reject=True) as writer:
            writer.write(given(range(9), 3))

    def check(table: Table, place: Path) -> None:
        for name in table.logical.registered.writers():
            if table.logical.registered.find(name) is not None:
                silence(table, name)
        before = good(table), kept(place)
        assert before in (([], []), ([1, 2, 4, 5, 7, 8], [0, 3, 6]))
        with table.writer() as writer:
            writer.write(given(range(10, 12), 10))
        seal_staged(table.logical)
        assert good(table) == [*before[0], 11]
        assert kept(place) == [*before[1], 10]
        assert not more or in_log(table) == good(table)

    every_fault(tmp_path, depth, write, check, 6)


@pytest.mark.parametrize("more", [LOG, ""], ids=["log", "files"])
def test_a_stream_that_sends_its_epoch_again_rejects_once(tmp_path, more, depth: Depth) -> None:
    make(tmp_path / "made", more)

    def send(table: DynamicTable, epoch: int = 0) -> None:
        rows = given(range(epoch * 9, epoch * 9 + 9), 3)
        if should_write_epoch(table, "query", epoch, ""):
            task = TaskWriter(table, "query", epoch, 0, rejects=Rejects.of(table, "query", epoch, 0))
            try:
                task.write(rows)
                result = task.finish()
            except BaseException:
                task.close()
                raise
        else:
            result = AttemptResult("query", epoch, "", row_count=rows.num_rows, replay=True)
        committer = Committer(table, "query")
        committer.commit(epoch, [result])
        seal(committer)

    def check(table: Table, place: Path) -> None:
        assert (good(table), kept(place)) in (([], []), ([1, 2, 4, 5, 7, 8], [0, 3, 6]))
        send(table.logical)
        send(table.logical, 1)
        assert good(table) == [i for i in range(18) if i % 3]
        assert kept(place) == list(range(0, 18, 3))
        assert not more or in_log(table) == good(table)

    every_fault(tmp_path, depth, send, check, 6)


def rejecting(place: Path, more: str) -> Table:
    """A table with good rows and rejected ones, of which the even ones fit after a fix."""
    table = make(place, more, "id int, name string not null, much int not null")
    for first in (0, 6):
        ids = range(first, first + 6)
        rows = {
            "id": pa.array(ids, pa.int32()),
            "name": [None if i % 3 == 0 else "a" for i in ids],
            "much": pa.array([None if i % 3 == 0 and i % 2 else 1 for i in ids], pa.int32()),
        }
        with table.writer() as writer:
            writer.write(pa.table(rows))
    assert (good(table), kept(place)) == ([i for i in range(12) if i % 3], [0, 3, 6, 9])
    connect(warehouse=str(place / "warehouse")).sql("alter table db.t alter column name drop not null")
    return opened(place)


AFTER = [i for i in range(12) if i % 3 or i % 2 == 0], [3, 9]


@pytest.mark.parametrize("more", [LOG, ""], ids=["log", "files"])
def test_a_replay_takes_each_row_once(tmp_path, more, depth: Depth) -> None:
    before = rejecting(tmp_path / "made", more)
    counts = good(before), [0, 3, 6, 9]

    def check(table: Table, place: Path) -> None:
        assert (good(table), kept(place)) in (counts, AFTER)
        replay_rejected(table.logical)
        assert (good(table), kept(place)) == AFTER
        assert replay_rejected(table.logical).written == 0
        seal_staged(table.logical)
        assert (good(table), kept(place)) == AFTER
        assert not more or in_log(table) == good(table)
        table.remove_orphan_files("0 s")
        assert kept(place) == AFTER[1]

    every_fault(tmp_path, depth, replay_rejected, check, 6)


def test_a_replay_of_records_takes_each_once(tmp_path, depth: Depth) -> None:
    table = make(tmp_path / "made", JSON_LOG)
    register_follower(table.logical)
    log = log_of(table)
    text = '{"before":null,"after":{"id":%d,"name":null},"op":"c"}'
    values = [(text % i if i % 2 else f"no record: id={i}, at all").encode() for i in range(4)]
    records = Records(pa.nulls(4, pa.large_binary()), pa.array(values, pa.large_binary()), UNOWNED_HEADER)
    appender_for(log).append(0, records)
    appender_for(log).flush()
    list(table.follow("latest"))
    connect(warehouse=str(tmp_path / "made" / "warehouse")).sql("alter table db.t alter column name drop not null")

    def rest(place: Path) -> int:
        return connect(warehouse=str(place / "warehouse")).table("db.t$rejected").scan().count()

    def check(table: Table, place: Path) -> None:
        assert (good(table), rest(place)) in (([], 4), ([1, 3], 2))
        replay_rejected(table.logical)
        appended(table, range(6, 8))
        list(table.follow("latest"))
        assert (good(table), rest(place)) == ([1, 3, 7], 3)

    every_fault(tmp_path, depth, replay_rejected, check, 6)


def suspended_before_decision(monkeypatch: pytest.MonkeyPatch, has_log: bool, meanwhile: Callable[[], None]) -> None:
    """The next replay stands still just before it decides, while others work."""
    owner: Any
    owner, name = (DecidedEpochs, "decide") if has_log else (FileStore, "commit")
    decide, is_done = getattr(owner, name), []

    def late(self: Any, *given: Any) -> Any:
        writer = given[0].writer if has_log else given[0].user
        if not is_done and writer.startswith("replay-"):
            is_done.append(True)
            meanwhile()
        return decide(self, *given)

    monkeypatch.setattr(owner, name, late)


@pytest.mark.parametrize("more", [LOG, ""], ids=["log", "files"])
def test_a_late_replay_after_a_rollback_takes_each_row_once(tmp_path, more, monkeypatch) -> None:
    """Also if the other one, that was rolled back, had the same rows."""
    table = rejecting(tmp_path, more)
    before = good(table), kept(tmp_path)
    newest = table.logical.store.latest_snapshot().id  # type: ignore[union-attr]

    def meanwhile() -> None:
        assert replay_rejected(opened(tmp_path).logical).written == 2
        roll_back(opened(tmp_path).logical, newest, files_only=True)
        assert (good(opened(tmp_path)), kept(tmp_path)) == before

    suspended_before_decision(monkeypatch, bool(more), meanwhile)
    with contextlib.suppress(CommitConflict):
        replay_rejected(table.logical)
    assert (good(table), kept(tmp_path)) in (before, AFTER)
    replay_rejected(table.logical)
    assert (good(table), kept(tmp_path)) == AFTER


@pytest.mark.parametrize("more", [LOG, ""], ids=["log", "files"])
def test_of_two_replays_at_once_one_takes_the_rows(tmp_path, more, monkeypatch) -> None:
    table = rejecting(tmp_path, more)
    others: list[ReplaySummary] = []

    def other() -> None:
        others.append(replay_rejected(opened(tmp_path).logical))

    suspended_before_decision(monkeypatch, bool(more), other)
    with pytest.raises(CommitConflict, match="Try again") if more else contextlib.nullcontext():
        assert replay_rejected(table.logical).written == 0
    assert others[0].written == 2
    assert (good(table), kept(tmp_path)) == AFTER
    assert replay_rejected(table.logical).written == 0
    assert (good(table), kept(tmp_path)) == AFTER
    assert not more or in_log(table) == good(table)
