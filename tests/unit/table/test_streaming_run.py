"""A second streaming query on a table with a key: refused when the first one is known to be alive, and only then."""

from __future__ import annotations

import pytest

from lakelog.errors import InvalidRequest
from lakelog.lake.table import Table
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.replay import should_write_epoch
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.model.log_state import newest_state
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import make, rows


class Query:
    """A run of a streaming query, as the sink commits it."""

    def __init__(self, table: Table, writer: str, run: str) -> None:
        self.table, self.writer, self.run = table.logical, writer, run
        self.committer = Committer(self.table, writer)

    def epoch(self, number: int, seals: bool = True) -> None:
        assert should_write_epoch(self.table, self.writer, number, self.run)
        task = TaskWriter(self.table, self.writer, number, 0)
        task.write(rows(number).to_batches()[0])
        self.committer.begin_run(self.run)
        self.committer.commit(number, [task.finish()])
        if seals:
            seal(self.committer)
        self.committer.check_alone()


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> list[int]:
    now = [10**12]

    def tick() -> int:
        now[0] += 1
        return now[0]

    monkeypatch.setattr("lakelog.table.commit.committer.now_ms", tick)
    return now


def test_the_second_is_refused_when_the_first_goes_on(tmp_path) -> None:
    table = make(tmp_path)
    first = Query(table, "one", "r1")
    first.epoch(0)
    second = Query(table, "two", "r2")
    second.epoch(0)
    first.epoch(1)
    with pytest.raises(InvalidRequest, match=r"two is a second.*one .* committed epoch 1 .* ago.*end_writer"):
        second.epoch(1)
    first.epoch(2)
    assert newest_state(table.logical.store)[1].sealed_epoch("two") == 1, "nothing of it is left open"


def test_another_process_of_the_first_is_still_the_first(tmp_path) -> None:
    table = make(tmp_path)
    Query(table, "one", "r1").epoch(0)
    second = Query(table, "two", "r2")
    second.epoch(0)
    Query(table, "one", "r1").epoch(1)
    Query(table, "one", "r1").epoch(2)
    with pytest.raises(InvalidRequest, match="one .* committed epoch"):
        Query(table, "two", "r2").epoch(1)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_query_that_has_stopped_is_in_nobodys_way(tmp_path, sealed) -> None:
    table = make(tmp_path)
    old = Query(table, "one", "r1")
    old.epoch(0)
    old.epoch(1, seals=sealed)
    anew = Query(table, "two", "r2")
    anew.epoch(0)
    seal_staged(table.logical)  # what the old one had decided may be sealed at any time
    anew.epoch(1)
    anew.epoch(2)


def test_a_query_that_starts_again_is_not_in_its_own_way(tmp_path) -> None:
    table = make(tmp_path)
    for number in range(4):
        Query(table, "one", f"r{number}").epoch(number)


def test_who_comes_back_while_another_one_writes_is_the_second(tmp_path) -> None:
    table = make(tmp_path)
    Query(table, "one", "r1").epoch(0)
    other = Query(table, "two", "r2")
    other.epoch(0)
    back = Query(table, "one", "r3")
    back.epoch(1)
    other.epoch(1)
    with pytest.raises(InvalidRequest, match="one is a second"):
        back.epoch(2)
    other.epoch(2)


@pytest.mark.parametrize(("key", "more"), [("", ""), (", primary key (id)", ", 'write.concurrent-writers' = 'true'")])
def test_where_several_may_write(tmp_path, key, more) -> None:
    table = make(tmp_path, more, key)
    queries = [Query(table, name, name) for name in ("one", "two")]
    for number in range(3):
        for query in queries:
            query.epoch(number)


def test_batch_writes_during_a_query_and_after_its_end(tmp_path) -> None:
    table = make(tmp_path)
    first, second = Query(table, "one", "r1"), Query(table, "two", "r2")
    first.epoch(0)
    for number in range(3):
        table.write(rows(number))
        first.epoch(number + 1)
    second.epoch(0)
    table.end_writer("one")
    second.epoch(1)
