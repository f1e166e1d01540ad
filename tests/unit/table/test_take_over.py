"""Writers whose lease has run out are taken over by whoever comes next; what they left in the log is taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from failing_jobs import Job
from failing_jobs import files as bag
from failing_jobs import net as added_up
from lakelog import connect
from lakelog.errors import Fenced, Unavailable
from lakelog.io import clock
from lakelog.io.clock import LONG_AGO
from lakelog.lake.table import Table
from lakelog.service.optimizer.optimizer import Optimizer
from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.commit.take_over import dead_writers, seal_abandoned, take_over, take_over_now
from lakelog.table.log.register import register_writer
from lakelog.table.model.registrations import STREAM, Registrations
from lakelog.table.model.waiting_epochs import waiting_epochs
from lakelog.table.read import log_view
from lakelog.table.staging import task_writer
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, make, rows, silence
from ordered_writes import FORMS, dies_before_its_snapshot

UNION = {"read.mode": "union"}


def die(tmp_path: Path, table: Table, how: str) -> str:
    """Kills a batch write, and lets its lease run out; the writer."""
    here = Path(__file__).parent
    path = os.pathsep.join([*sys.path, str(here.parent.parent)])
    job = [sys.executable, str(here / "dead_writer_job.py"), str(tmp_path / "warehouse"), how]
    ended = subprocess.run(job, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr
    (name,) = table.logical.registered.writers()
    assert dead_writers(table.logical) == {}, "it may be at work yet"
    silence(table, name)
    return name


def begun(table: Table, *ids: int) -> tuple[TableWriter, str]:
    """A batch write under way, and its writer."""
    writer = table.writer()
    writer.write(rows(*ids))
    writer.flush()
    (name,) = table.logical.registered.writers()
    return writer, name


def by_take_over(table: Table) -> None:
    assert len(list(take_over(table.logical))) == 1
    seal_abandoned(table.logical)


def by_write(table: Table) -> None:
    table.write(rows(50, name="next"))


def by_optimizer(table: Table) -> None:
    lake = connect(warehouse=str(Path(table.path).parent.parent))
    assert [run.kind for run in Optimizer(lake, OptimizerSettings()).once()] == ["healing"]


@pytest.mark.parametrize("by", [by_take_over, by_write, by_optimizer])
@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_rows_of_one_that_died_before_it_decided_are_taken_back(
    tmp_path: Path, mode: str, by: Callable[[Table], None]
) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    table.write(rows(1, 2))
    die(tmp_path, table, "open")
    assert (1, "lost") in folded(table) and files(table, **UNION) == [(1, "a"), (2, "a")]
    (need,) = [need for need in table.health().needs if need.kind == "healing"]
    assert "1 dead writer" in need.reason
    by(table)
    want = [(1, "a"), (2, "a"), *([(50, "next")] if by is by_write else [])]
    assert folded(table) == files(table) == files(table, **UNION) == want
    assert table.logical.registered.writers() == []
    assert table.health().needs == ()
    assert list(take_over(table.logical)) == []


@pytest.mark.parametrize("by", [by_take_over, by_write, by_optimizer])
def test_rows_of_a_driver_that_died_after_its_decision_get_a_snapshot(
    tmp_path: Path, by: Callable[[Table], None]
) -> None:
    table = make(tmp_path)
    die(tmp_path, table, "decided")
    assert [need.kind for need in table.health().needs] == ["healing"]
    by(table)
    want = [*((number, "kept") for number in (1, 7, 8, 9)), *([(50, "next")] if by is by_write else [])]
    assert folded(table) == files(table) == want
    assert table.logical.registered.writers() == []
    assert table.health().figures.log.lag == 0


@pytest.mark.parametrize("times", [1, 9])
def test_a_registration_that_others_remove_is_made_again(tmp_path: Path, monkeypatch, times: int) -> None:
    """A process is suspended while it registers, and others remove what there is; so it does not fail with NotFound."""
    table = make(tmp_path)
    register, left = Registrations.register, [times]

    def removed(self: Registrations, writer: str, *given: object) -> bool:
        made = register(self, writer, *given)  # type: ignore[arg-type]
        if left[0]:
            left[0] -= 1
            self.forget(writer)
            return False  # as for one that was registered before
        return made

    monkeypatch.setattr(Registrations, "register", removed)
    writer = table.writer()
    if times == 1:
        writer.write(rows(1))
        writer.commit()
        assert files(table) == [(1, "a")]
    else:
        with pytest.raises(Fenced, match="none of these rows are in the table"):
            writer.write(rows(1))
    monkeypatch.undo()
    writer.close()


def test_one_that_is_alive_is_left_alone_however_old(tmp_path: Path) -> None:
    table = make(tmp_path)
    writer, name = begun(table, 1)
    register_writer(table.logical, "query")
    for writer_of in (name, "query"):
        old = clock.now_ms() / 1000 - 100 * 24 * 3600
        os.utime(table.logical.registered.origin_path(writer_of), (old, old))
    assert dead_writers(table.logical) == {} and list(take_over(table.logical)) == []
    writer.commit()
    writer.close()
    assert files(table) == folded(table) == [(1, "a")]


def test_a_lease_is_kept_while_a_writer_is_open_and_writes_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    writer, name = begun(table, 1)
    kept = table.logical.registered.kept(name)
    assert kept is not None
    kept.used_s = 0.0  # an hour without a row
    assert not kept.is_unused()
    writer.commit()
    assert not kept.is_unused(), "between two commits, too"
    writer.close()
    assert kept.is_lost and table.logical.registered.writers() == []


def test_two_that_take_over_from_one_writer_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    _, name = begun(table, 1)
    silence(table, name)
    dead = dead_writers(table.logical)
    assert list(take_over(table.logical)) == [name]
    monkeypatch.setattr("lakelog.table.commit.take_over.dead_writers", lambda _: dead)  # that one has checked before
    assert list(take_over(table.logical)) == []
    assert table.logical.registered.writers() == []


def test_files_of_a_process_that_died_during_registration_are_cleaned(tmp_path: Path) -> None:
    table = make(tmp_path)
    staged = Path(table.path) / "lakelog" / "staged"
    for name in ("lease", ".origin.4478dcc6.tmp"):
        (staged / name.strip(".")).mkdir(parents=True)
        (staged / name.strip(".") / name).write_bytes(b"{}")
        os.utime(staged / name.strip(".") / name, (1, 1))
    assert list(take_over(table.logical)) == [] == list(staged.iterdir())


def test_a_writer_with_a_process_mark_instead_of_a_lease_is_dead(tmp_path: Path) -> None:
    """A writer of version before leases, with a mark of its process, is dead for everybody."""
    table = make(tmp_path)
    _, name = begun(table, 1)
    silence(table, name)
    staged = Path(table.path) / "lakelog" / "staged" / name
    (staged / "lease").unlink()
    (staged / "batch").write_text(f'{{"process": {os.getpid()}}}')
    (found,) = dead_writers(table.logical).values()
    assert found.is_batch
    assert list(take_over(table.logical)) == [name]
    assert folded(table) == files(table) == []


def pause(table: Table, writer: str) -> None:
    """The process of a writer was held up for longer than its lease, and goes on now."""
    registered = table.logical.registered
    kept = registered.kept(writer)
    assert kept is not None
    kept.is_due = lambda: False  # type: ignore[method-assign]  # its thread is held up, too
    if registered.is_registered(writer):
        found = registered.find(writer)
        assert found is not None
        registered.write_lease(writer, found.kind, settled=found.settled)
    kept.renewed = LONG_AGO


@pytest.mark.parametrize("mode", ["upsert", "all"])
@pytest.mark.parametrize("next_step", ["write", "commit"])
def test_a_writer_that_returns_after_its_end_is_fenced_off(tmp_path: Path, mode: str, next_step: str) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    writer, name = begun(table, 1, 2)
    pause(table, name)
    assert list(take_over(table.logical)) == [name]
    assert folded(table) == []
    with pytest.raises(Fenced):
        writer.write(rows(3)) if next_step == "write" else writer.commit()
    writer.close()
    assert folded(table) == files(table) == files(table, **UNION) == []
    assert table.logical.registered.writers() == []
    by_write(table)
    assert folded(table) == files(table) == [(50, "next")]


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_rows_that_were_on_their_way_when_a_writer_was_ended_are_taken_back(
    tmp_path: Path, monkeypatch, mode: str
) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    writer, name = begun(table, 1, 2)
    pause(table, name)
    assert list(take_over(table.logical)) == [name]
    with monkeypatch.context() as sent:
        sent.setattr(task_writer, "check_lease", lambda *_: None)
        writer.write(rows(3))
        writer.flush()
    with pytest.raises(Fenced):
        writer.commit()
    writer.close()
    assert folded(table) == files(table) == files(table, **UNION) == []


def test_a_batch_writer_between_two_commits_that_was_taken_for_dead_goes_on(tmp_path: Path) -> None:
    table = make(tmp_path)
    writer, name = begun(table, 1)
    writer.commit()
    pause(table, name)
    assert list(take_over(table.logical)) == [name]
    writer.write(rows(2))
    writer.commit()
    writer.close()
    assert folded(table) == files(table) == [(1, "a"), (2, "a")]
    assert table.logical.registered.writers() == []


@pytest.fixture(params=FORMS, ids=["-".join(form) for form in FORMS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    mode, form = request.param
    return make(tmp_path, f", 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'")


def task_of(table: Table, epoch: int, *ids: int, name: str) -> task_writer.TaskWriter:
    register_writer(table.logical, "query", STREAM)
    task = task_writer.TaskWriter(table.logical, "query", epoch, 0)
    task.write(rows(*ids, name=name).to_batches()[0])
    task.flush_log()
    return task


def test_a_paused_streaming_task_renews_its_lease_before_it_appends(table: Table) -> None:
    committer = Committer(table.logical, "query")
    committer.commit(0, [task_of(table, 0, 1, name="q0").finish()])
    task = task_of(table, 1, 1, 2, name="q1")
    pause(table, "query")
    assert list(take_over(table.logical)) == ["query"]
    assert folded(table) == files(table) == [(1, "q0")]
    assert dead_writers(table.logical) == {}, "it was checked"
    task.write(rows(3, name="q1").to_batches()[0])
    found = table.logical.registered.find("query")
    assert found is not None and found.is_alive and found.settled is None
    committer.commit(1, [task.finish()])
    table.seal()
    want = [(number, "q1") for number in (1, 2, 3)]
    assert folded(table) == files(table) == files(table, **UNION) == want


@pytest.mark.parametrize("sends", ["the same attempt", "another attempt", "other keys"])
def test_a_stream_that_resumes_after_its_take_over_ends_correctly(table: Table, sends: str) -> None:
    first = Committer(table.logical, "query")
    first.commit(0, [task_of(table, 0, 1, 2, name="q0").finish()])
    lost = task_of(table, 1, 1, 3, name="lost" if sends != "the same attempt" else "q1")
    silence(table, "query")
    by_write(table)
    assert folded(table) == files(table) == [(1, "q0"), (2, "q0"), (50, "next")]
    again = Committer(table.logical, "query")
    ids = (1, 3) if sends != "other keys" else (2, 4)
    task = lost if sends == "the same attempt" else task_of(table, 1, *ids, name="q1")
    again.commit(1, [task.finish()])
    table.seal()
    want = sorted({1: "q0", 2: "q0", 50: "next", **dict.fromkeys(ids, "q1")}.items())
    assert folded(table) == files(table) == files(table, **UNION) == want


def test_a_stream_without_a_key_that_comes_back_ends_right(tmp_path: Path) -> None:
    table = make(tmp_path, key="")
    Job(table).epoch(0, range(5))
    Job(table).lose(1, range(5, 9))
    silence(table, "query")
    assert list(take_over(table.logical)) == ["query"]
    seal_abandoned(table.logical)
    assert added_up(table) == bag(table) == {(i, "e0"): 1 for i in range(5)}
    Job(table).epoch(1, range(5, 7))
    table.seal()
    want = {(i, "e0"): 1 for i in range(5)} | {(5, "e1"): 1, (6, "e1"): 1}
    assert added_up(table) == bag(table) == want


def test_what_could_not_be_marked_is_not_forgotten(tmp_path: Path, monkeypatch) -> None:
    """Its epoch record goes when its control records are in the log, and its registration behind them."""
    table = make(tmp_path, key="")
    name = dies_before_its_snapshot(table, monkeypatch, 1, 7, 8, 9, name="kept")
    silence(table, name)

    def away(*_: object) -> None:
        raise Unavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "append_commit", away)
        take_over_now(table.logical)
    assert sorted(files(table)) == [(number, "kept") for number in (1, 7, 8, 9)]
    assert table.logical.registered.writers() == [name]
    take_over_now(table.logical)
    told = [r for b in table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
            for r in b.to_pylist()]  # fmt: skip
    assert sorted(r["id"] for r in told) == [1, 7, 8, 9]
    assert table.logical.registered.writers() == []


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_a_reader_that_is_paused_while_it_starts_does_not_read_values_that_a_take_over_restored(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    Job(table).lose(0, [1])
    write_one(table, "middle")
    silence(table, "query")
    look = log_view.waiting_epochs

    def paused(seen):
        if dead_writers(table.logical):
            by_take_over(table)
            write_one(table, "newest")
        return look(seen)

    monkeypatch.setattr(log_view, "waiting_epochs", paused)
    assert folded(table, "latest-full") == files(table) == folded(table) == [(1, "newest")]


def write_one(table: Table, name: str) -> None:
    table.write(rows(1, name=name))


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_take_over_leaves_rows_of_an_epoch_that_was_sealed_after_the_next_decision(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted driver decides epoch 1 from the offsets of epoch 0 and dies; another process then seals epoch 0."""
    table = make(tmp_path, ", 'log.changelog-mode' = 'all'", key=key)
    Job(table).epoch(0, [1, 2, 3])
    job = Job(table)
    attempts = job.attempts(1, [4])
    (record,) = waiting_epochs(table.logical).waiting
    with monkeypatch.context() as patched, pytest.raises(Unavailable):
        patched.setattr(Committer, "_heal", Mock(side_effect=Unavailable("dies")))
        job.committer.commit(1, attempts)
    helper = Committer(table.logical.whole, "query", helps=True)
    helper.verify(record)
    assert seal(helper) is not None
    Committer(table.logical, "query", helps=True).take_back()
    assert added_up(table) == {(number, "e0"): 1 for number in (1, 2, 3)} | {(4, "e1"): 1}
    assert added_up(table, "latest-full") == added_up(table)
