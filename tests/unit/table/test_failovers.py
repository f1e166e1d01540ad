"""Jobs that die and start again, by the real tasks, committer and log; among them open bugs of others.

A reader of Amoro's log loses rows when a job fails over (apache/amoro#1534: 277 of 776 rows), breaks at the second
failover, keeps the duplicates of a job that comes back with another number of tasks, and loses rows when it begins
inside an unfinished epoch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from failing_jobs import Job, end, files, net
from lakelog import connect
from lakelog.errors import Fenced, NotFound
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal import seal
from lakelog.table.model.log_state import newest_state
from ready_formats import schema_registry


@pytest.fixture(params=["debezium-json", "arrow", "avro"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Without a key: what is doubled stays doubled."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string) using lakelog tblproperties ('log-store.enabled' = 'true', "
        f"'bucket' = '1', 'bucket-key' = 'id', 'log-store.data-format' = '{request.param}', "
        f"'log-store.schema-registry.url' = '{schema_registry().url}')"
    )
    return lake.table("db.t")


def test_776_of_776_rows_come_through_a_failover(table: Table) -> None:
    """apache/amoro#1534, with the reader in each place: before the job, between the two tries, behind them."""
    places = [end(table)]
    Job(table).lose(0, range(500))
    places.append(end(table))
    Job(table).epoch(0, range(776))
    want = {(i, "e0"): 1 for i in range(776)}
    assert files(table) == net(table, places[0]) == want
    late = net(table, places[1])
    assert late == {row: count for row in want if (count := 1 - (row[0] < 500))}, "rows from before it are taken back"
    places.append(end(table))
    Job(table).epoch(1, range(776))
    assert net(table, places[2]) == {(i, "e1"): 1 for i in range(776)}


def test_two_failovers_in_a_row(table: Table) -> None:
    """Of epochs 9 and 10, then 10 and 11, which sorted as texts are in another order."""
    job = Job(table)
    for number in range(9):
        job.epoch(number, [number])
    job.lose(9, [9, 109])
    job = Job(table)
    job.epoch(9, [9])
    job.lose(10, [10, 110])
    again = Job(table)
    again.lose(10, [10, 210])
    job = Job(table)
    job.epoch(10, [10])
    job.epoch(11, [11])
    assert files(table) == net(table) == {(i, f"e{i}"): 1 for i in range(12)}


def test_a_reader_that_begins_inside_an_open_epoch_misses_nothing(table: Table) -> None:
    job = Job(table)
    job.epoch(0, range(10))
    job.lose(1, range(10, 15))
    inside = end(table)
    before = net(table)
    job.lose(1, range(15, 20))
    Job(table).epoch(1, range(10, 30))
    after = Counter(before)
    after.update(net(table, inside))
    assert {row: n for row, n in after.items() if n} == files(table) == net(table)
    assert len(files(table)) == 30


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (4, 2)])
def test_another_number_of_tasks_after_a_restart_leaves_no_duplicates(table: Table, before: int, after: int) -> None:
    job = Job(table, before)
    job.epoch(0, range(20))
    job.lose(1, range(20, 50))
    job = Job(table, after)
    job.epoch(1, range(20, 50))
    job.epoch(2, range(50, 60))
    want = {(i, f"e{n}"): 1 for n, part in enumerate([range(20), range(20, 50), range(50, 60)]) for i in part}
    assert files(table) == net(table) == want


def test_an_older_checkpoint_continues_after_dead_attempts(table: Table) -> None:
    """The job comes back before its last epoch; in the log there are rows of a later one, which nobody has decided."""
    job = Job(table)
    job.epoch(0, range(5))
    job.epoch(1, range(5, 9))
    job.lose(2, range(9, 12))
    job = Job(table)
    for number, ids in enumerate([range(5), range(5, 9), range(9, 12), range(12, 14)]):
        job.epoch(number, ids)
    assert files(table) == net(table)
    assert sum(files(table).values()) == 14
    assert seal(job.committer) is not None
    assert files(table) == net(table)


def test_a_driver_that_was_replaced_stops(table: Table) -> None:
    old = Job(table)
    old.epoch(0, [0])
    late = old.attempts(1, [100])
    new = Job(table)
    new.lose(1, [1])
    new.lose(2, [2])
    with pytest.raises(Fenced, match="epoch 2"):
        old.committer.commit(1, late)


@pytest.mark.parametrize("repeated", [1, 2, 3])
def test_a_seal_after_an_older_checkpoint_takes_all_that_its_offset_covers(table: Table, repeated: int) -> None:
    """A reader that begins with the snapshot goes on at its offset: below it there must be no epoch that it has not."""
    job = Job(table)
    for number in range(4):
        job.epoch(number, [number])
    job = Job(table)
    for number in range(repeated):
        job.epoch(number, [number])
    behind = end(table)
    snapshot = seal(job.committer)
    assert snapshot is not None and snapshot.total_record_count == 4
    state = newest_state(job.table.store)[1].writers["query"]
    assert (state.epoch, state.verified) == (3, behind)


@pytest.mark.parametrize("epochs", [0, 2])
def test_a_new_checkpoint_continues_after_an_ended_query(table: Table, epochs: int) -> None:
    old = Job(table)
    for number in range(epochs):
        old.epoch(number, [number])
    late = old.attempts(epochs, [100, 101])
    assert table.end_writer("query") is not None
    assert net(table) == files(table) == {(i, f"e{i}"): 1 for i in range(epochs)}
    new = Job(table, writer="anew")
    new.epoch(0, [50])
    for driver in (old.committer, Committer(old.table, "query")):
        with pytest.raises(Fenced, match="new checkpointLocation"):
            driver.commit(epochs, late)
    assert [r.epoch for r in old.table.decided.of("query")] == []
    assert table.end_writer("query") is None
    assert table.end_writer("anew") is not None
    assert net(table) == files(table) == {(i, f"e{i}"): 1 for i in range(epochs)} | {(50, "e0"): 1}


def test_a_writer_that_is_not_there_cannot_be_ended(table: Table) -> None:
    Job(table).epoch(0, [1])
    with pytest.raises(NotFound, match="query"):
        table.end_writer("other")
