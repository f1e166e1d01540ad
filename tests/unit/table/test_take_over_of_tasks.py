"""A batch job is taken over between two of its tasks: what both left in the log is taken back once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from failing_jobs import net as added_up
from lakelog.errors import CommitDecided, CommitUnknown, Fenced, Unavailable
from lakelog.lake.table import Table
from lakelog.spark.write import batch_writer
from lakelog.spark.write.batch_writer import write_attempt
from lakelog.table.commit import committer
from lakelog.table.commit import take_over as takes
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.take_over import seal_abandoned, take_over
from lakelog.table.log.register import register_writer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.registrations import BATCH, Registrations
from lakelog.table.staging.job_files import JobFiles
from log_tables import files, folded, make, rows, silence


def end(table: Table) -> None:
    assert len(list(take_over(table.logical))) == 1
    seal_abandoned(table.logical)


def test_rows_before_a_later_registration_are_taken_back_also_after_a_lost_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task was suspended in its append while the batch was taken over; the next task registered the batch again."""
    table = make(tmp_path)
    logical = table.logical
    table.write(rows(1, name="old"))

    def append(lane: int) -> AttemptResult:
        return write_attempt(logical, "job", 0, lane, iter(rows(1, 2, name=f"of task {lane}").to_batches())).result

    register_writer(logical, "job", BATCH)
    silence(table, "job")
    end(table)
    first = append(0)
    register_writer(logical, "job", BATCH)
    second = append(1)

    def lost(*given: object) -> None:
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(committer, "take_back_late", lost)
    with pytest.raises(CommitUnknown):
        Committer(logical, "job", once=True).commit(0, [first, second])
    monkeypatch.undo()
    assert batch_writer._take_back(logical, "job", [first, second])
    table.seal()
    assert files(table) == folded(table) == [(1, "old")]


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_rows_before_a_later_registration_are_taken_back_also_after_the_death_of_the_driver(
    tmp_path: Path, key: str
) -> None:
    """A task was suspended in its append while the batch was taken over; the next task registered the batch again."""
    table = make(tmp_path, key=key)
    logical = table.logical
    table.write(rows(9, name="old"))
    register_writer(logical, "job", BATCH)
    silence(table, "job")
    end(table)
    for lane in range(2):
        write_attempt(logical, "job", 0, lane, iter(rows(lane, name="of the job").to_batches()))
        register_writer(logical, "job", BATCH)
    silence(table, "job")
    end(table)
    assert files(table) == [(9, "old")]
    assert (folded(table) == [(9, "old")]) if key else (added_up(table) == {(9, "old"): 1})


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
@pytest.mark.parametrize("has_died", [True, False])
def test_rows_before_a_later_registration_follow_the_batch_after_another_writer_has_sealed_them(
    tmp_path: Path, key: str, has_died: bool
) -> None:
    """The other writer was at work before, and reads them while the batch is alive."""
    table = make(tmp_path, key=key)
    logical = table.logical
    register_writer(logical, "job", BATCH)
    silence(table, "job")
    end(table)

    def task(lane: int) -> AttemptResult:
        return write_attempt(logical, "job", 0, lane, iter(rows(lane, name="of the job").to_batches())).result

    with table.writer() as other:
        other.write(rows(7, name="of the other"))
        other.flush()
        first = task(0)
        register_writer(logical, "job", BATCH)
        other.write(rows(8, name="of the other"))
    second, wanted = task(1), [(7, "of the other"), (8, "of the other")]
    if has_died:
        silence(table, "job")
        end(table)
    else:
        batch_writer._commit(logical, "job", [first, second], True)
        wanted = [(0, "of the job"), (1, "of the job"), *wanted]
    assert files(table) == wanted
    assert (folded(table) == wanted) if key else (added_up(table) == dict.fromkeys(wanted, 1))


def test_a_batch_that_is_forgotten_while_its_origin_is_lowered_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    logical = table.logical
    register_writer(logical, "job", BATCH)
    silence(table, "job")
    end(table)
    write_attempt(logical, "job", 0, 0, iter(rows(1, name="of the job").to_batches()))
    register_writer(logical, "job", BATCH)
    silence(table, "job")
    lower = Registrations.lower

    def beside_another(self: Registrations, writer: str, ends: Mapping[int, int]) -> None:
        self.forget(writer)
        lower(self, writer, ends)

    monkeypatch.setattr(Registrations, "lower", beside_another)
    end(table)
    assert logical.registered.writers() == []
    assert files(table) == folded(table) == []


@pytest.mark.parametrize("key", ["", ", primary key (id)"])
@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1}])
def test_rows_of_speculative_tasks_are_taken_back_once_with_the_batch(tmp_path: Path, key: str, lost: set[int]) -> None:
    """Tasks 0 and 1 append before and after the take-over; each of ``lost`` runs twice, and its first try is lost."""
    table = make(tmp_path, key=key)
    logical = table.logical

    def task(lane: int) -> AttemptResult:
        register_writer(logical, "job", BATCH)
        for _ in range(2 if lane in lost else 1):
            result = write_attempt(logical, "job", 0, lane, iter(rows(lane, 7).to_batches())).result
        return result

    first = task(0)
    silence(table, "job")
    end(table)
    second = task(1)
    with pytest.raises(Fenced):
        Committer(logical, "job", once=True).commit(0, [first, second])
    assert files(table) == []
    assert (folded(table) == []) if key else (added_up(table) == {})


@pytest.mark.parametrize("meanwhile", ["a later batch seals", "nothing"])
@pytest.mark.parametrize("tries", [1, 2], ids=["one try", "a lost first try"])
@pytest.mark.parametrize("key", ["", ", primary key (id)"])
def test_a_decided_batch_that_is_cut_off_longer_than_its_lease_keeps_its_rows_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, tries: int, meanwhile: str
) -> None:
    """Another process takes it over and seals; then its own seal fails, and Spark calls ``abort``."""
    table = make(tmp_path, key=key)
    logical = table.logical
    job = JobFiles("job")
    register_writer(logical, "job", BATCH)
    for _ in range(tries):
        result = write_attempt(logical, "job", 0, 0, iter(rows(*range(300)).to_batches()), job=job).result

    def cut_off(*_: object, **__: object) -> None:
        silence(table, "job")
        end(table)
        if meanwhile != "nothing":
            table.write(rows(1_000, name="other"))
        raise Unavailable("the network came back too late")

    monkeypatch.setattr(batch_writer, "seal_in_turn", cut_off)
    with pytest.raises(CommitDecided):
        batch_writer._commit(logical, "job", [result], True)
    assert not batch_writer._take_back(logical, "job", [result]), "its files stay"
    want = 300 if meanwhile == "nothing" else 301
    assert len(files(table)) == want
    assert len(folded(table)) == want if key else sum(added_up(table).values()) == want


def test_a_decision_that_wins_against_the_end_of_its_writer_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is suspended before it decides, and taken over; it decides just before the take-over does."""
    table = make(tmp_path)
    logical = table.logical
    register_writer(logical, "job", BATCH)
    result = write_attempt(logical, "job", 0, 0, iter(rows(1, 2).to_batches())).result
    decide, decide_none = DecidedEpochs.decide, takes._decide_none

    def suspended(epochs: DecidedEpochs, wanted: EpochRecord, tip: int = 0) -> tuple[EpochRecord, bool]:
        monkeypatch.setattr(DecidedEpochs, "decide", decide)
        decisions = []

        def at_the_end(*given: Any) -> bool:
            decisions.append(decide(epochs, wanted, tip))
            return decide_none(*given)

        monkeypatch.setattr(takes, "_decide_none", at_the_end)
        silence(table, "job")
        assert list(take_over(logical)) == [], "it has decided"
        return decisions[0]

    monkeypatch.setattr(DecidedEpochs, "decide", suspended)
    batch_writer._commit(logical, "job", [result], True)
    assert files(table) == folded(table) == [(1, "a"), (2, "a")]
    assert not batch_writer._take_back(logical, "job", [result])
    assert files(table) == folded(table) == [(1, "a"), (2, "a")]
