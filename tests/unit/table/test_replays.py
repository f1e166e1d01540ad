"""Epochs that are sent again: rows that Spark counts as committed are in the table, or the query fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from failing_jobs import Job, files, net
from lakelog import connect
from lakelog.errors import Fenced, InvalidRequest
from lakelog.io.names import new_uuid
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal import seal
from lakelog.table.maintenance.retention import expire_snapshots
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.log_state import KEPT_EPOCHS, newest_state


@pytest.fixture(params=["", ", primary key (id)"], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Its epochs lie in the lane of the writer, or in the chain of the table."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        f"create table db.t (id int, name string{request.param}) using lakelog tblproperties "
        "('log-store.enabled' = 'true', 'bucket' = '1', 'bucket-key' = 'id', 'log.changelog-mode' = 'all')"
    )
    return lake.table("db.t")


def observed(job: Job, number: int, ids: Sequence[int]) -> list[AttemptResult]:
    """The attempts of tasks that look for a decision first, as those of a restarted query do."""
    if should_write_epoch(job.table, job.writer, number, new_uuid()):
        return job.attempts(number, ids)
    return [AttemptResult(job.writer, number, "", row_count=len(ids), replay=True)]


def raced(job: Job, number: int, ids: Sequence[int]) -> list[AttemptResult]:
    """The first task writes its rows, the second one finds the epoch decided."""
    return [*job.attempts(number, ids[:1]), AttemptResult(job.writer, number, "", row_count=len(ids) - 1, replay=True)]


def first_run(table: Table, is_sealed: bool, epochs: int = 4) -> dict[tuple[int, str], int]:
    """Ten rows in each epoch; returns what the table then has."""
    job = Job(table, tasks=2)
    for number in range(epochs):
        job.epoch(number, range(number * 10, number * 10 + 10))
    if is_sealed:
        seal(job.committer)
    return files(table)


SENT = pytest.mark.parametrize("sent", [Job.attempts, observed, raced])


@pytest.mark.parametrize("is_sealed", [False, True])
@SENT
def test_rows_that_an_older_checkpoint_puts_into_a_committed_epoch_are_not_acknowledged(
    table: Table, is_sealed: bool, sent
) -> None:
    before = first_run(table, is_sealed)
    job = Job(table)
    job.committer.commit(0, sent(job, 0, range(10)))
    for _ in range(2):  # Spark restarts the query
        with pytest.raises(
            Fenced,
            match=r"epoch 1 of query query is not committed: it has 30 rows, but table db.t holds this epoch with 10 "
            r"rows. The checkpoint is older than the table.*new checkpointLocation",
        ):
            job.committer.commit(1, sent(job, 1, range(10, 40)))
        assert files(table) == net(table) == before
        job = Job(table)
    anew = Job(table, writer="anew")
    anew.epoch(0, range(40, 50))
    assert len(files(table)) == len(net(table)) == 50


@pytest.mark.parametrize("is_sealed", [False, True])
@SENT
def test_a_replay_with_as_many_rows_goes_on(table: Table, is_sealed: bool, sent) -> None:
    """With another number of tasks, and rows that differ: those of the first commit stay."""
    before = first_run(table, is_sealed)
    job = Job(table)
    for number in range(4):
        job.committer.commit(number, sent(job, number, range(number * 10, number * 10 + 10)))
    job = Job(table, tasks=3)
    job.committer.commit(3, sent(job, 3, range(90, 100)))
    job.epoch(4, range(40, 45))
    assert files(table) == net(table) == before | {(i, "e4"): 1 for i in range(40, 45)}
    assert seal(job.committer) is not None


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_empty_epoch_is_repeated_as_an_empty_one_only(table: Table, is_sealed: bool) -> None:
    job = Job(table)
    for number, ids in enumerate([range(5), [], range(5, 9)]):
        job.epoch(number, ids)
    if is_sealed:
        seal(job.committer)
    job = Job(table)
    job.committer.commit(1, observed(job, 1, []))
    with pytest.raises(Fenced, match="it has 2 rows, but table db.t holds this epoch with 0 rows"):
        job.committer.commit(1, observed(job, 1, [7, 8]))
    with pytest.raises(Fenced, match="it has 0 rows, but table db.t holds this epoch with 4 rows"):
        Job(table).committer.commit(2, observed(Job(table), 2, []))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_epoch_that_was_skipped_does_not_swallow_rows(table: Table, is_sealed: bool) -> None:
    """Tasks leave out an epoch below the newest one, also one that was never decided."""
    job = Job(table)
    job.epoch(0, range(5))
    job.epoch(2, range(5, 9))
    if is_sealed:
        seal(job.committer)
    again = Job(table)
    with pytest.raises(Fenced, match="epoch 1 .* it has 2 rows, but table db.t holds this epoch with 0 rows"):
        again.committer.commit(1, observed(again, 1, [7, 8]))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_driver_that_lost_the_decision_to_another_split_is_not_acknowledged(table: Table, is_sealed: bool) -> None:
    old = Job(table)
    old.epoch(0, range(5))
    late = old.attempts(1, range(5, 25))
    new = Job(table)
    new.epoch(1, range(5, 10))
    if is_sealed:
        seal(new.committer)
    with pytest.raises(Fenced, match="it has 20 rows, but table db.t holds this epoch with 5 rows"):
        old.committer.commit(1, late)
    Job(table).epoch(2, range(10, 12))
    assert files(table) == net(table)
    assert len(files(table)) == 12


def test_a_nondeterministic_query_continues_with_the_rows_of_the_first_commit(table: Table) -> None:
    before = first_run(table, is_sealed=False)
    lenient = Committer(table.logical.with_hints({"write.check-replays": "false"}), "query")
    lenient.commit(3, observed(Job(table), 3, range(30, 33)))
    assert files(table) == net(table) == before


@pytest.fixture
def long_ago(table: Table) -> Table:
    """Epochs that the newest state has forgotten, and others of which no snapshot knows."""
    job = Job(table)
    for number in range(KEPT_EPOCHS + 30):
        job.epoch(number, [number])
        if number % 10 == 9:
            seal(job.committer)
    return table


def test_older_snapshots_know_the_rows_of_older_epochs(long_ago: Table, caplog) -> None:
    """The last epochs are in the newest state, those before in the snapshots that have not expired."""
    assert len(newest_state(long_ago.logical.store)[1].writers["query"].rows) == KEPT_EPOCHS
    for number in (0, 5, 29, 30, KEPT_EPOCHS + 29):
        job = Job(long_ago)
        job.committer.commit(number, observed(job, number, [number]))
        with pytest.raises(Fenced, match=f"epoch {number} of query query is not committed: it has 2 rows"):
            job.committer.commit(number, observed(job, number, [1, 2]))
    expire_snapshots(long_ago.logical, 1, 1, timedelta(0))
    job = Job(long_ago)
    caplog.clear()
    job.committer.commit(29, observed(job, 29, [1, 2]))
    with pytest.raises(Fenced, match="epoch 30"):
        job.committer.commit(30, observed(job, 30, [1, 2]))


def test_an_older_checkpoint_is_warned_of(table: Table, caplog) -> None:
    """Numbers of rows are compared, not the rows: as many others are not written."""
    caplog.set_level(logging.WARNING, "lakelog")
    caplog.set_level(logging.WARNING, "lakelog.commit")
    first_run(table, is_sealed=True)
    job = Job(table)
    job.committer.commit(3, observed(job, 3, range(30, 40)))
    assert not caplog.records, "Spark repeats the newest epoch whenever a query starts again"
    for number in (1, 2):
        job.committer.commit(number, observed(job, number, range(10)))
    (warned,) = [record.getMessage() for record in caplog.records if record.name == "lakelog.commit"]
    assert "query query sends epoch 1 of table db.t again, but has committed epochs up to 3" in warned
    assert "new checkpointLocation" in warned


def test_a_state_of_an_earlier_version_is_read_and_carried_on(table: Table) -> None:
    """It has no numbers of rows: nothing is compared, until epochs are sealed that have them."""
    before = first_run(table, is_sealed=True)
    snapshot = newest_state(table.logical.store)[0]
    assert snapshot is not None
    path = Path(table.path) / "snapshot" / f"snapshot-{snapshot.id}"
    text = orjson.loads(path.read_bytes())
    writers = orjson.loads(text["properties"]["lakelog.writers"])
    assert writers["query"].pop("rows") == [10, 10, 10, 10]
    text["properties"]["lakelog.writers"] = orjson.dumps(writers).decode()
    path.write_bytes(orjson.dumps(text))
    job = Job(table)
    job.committer.commit(3, observed(job, 3, range(30, 37)))
    assert files(table) == net(table) == before
    job.epoch(4, range(40, 45))
    seal(job.committer)
    assert newest_state(table.logical.store)[1].writers["query"].rows == (5,)
    again = Job(table)
    again.committer.commit(3, observed(again, 3, range(30, 37)))
    with pytest.raises(Fenced, match="epoch 4"):
        again.committer.commit(4, observed(again, 4, range(40, 47)))


def test_a_checkpoint_of_another_table_is_refused_also_without_the_run_of_its_query(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="has never been written by this query"):
        should_write_epoch(table.logical, "query", 7, "")
