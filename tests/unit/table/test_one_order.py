"""One order of what is decided: an acknowledged write is above all that was decided before it, whoever wrote that."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect
from lakelog.lake.table import Table
from lakelog.service.optimizer.optimizer import Optimizer
from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.commit.seal import seal
from lakelog.table.commit.take_over import take_over
from log_tables import files, make, rows, silence
from ordered_writes import (
    CHANGED,
    FORMS,
    attempt,
    change,
    check,
    decided,
    dies_before_its_snapshot,
    open_write,
    take_back_while_a_row_comes,
    while_it_heals,
    without_log,
    write,
)


@pytest.fixture(params=FORMS, ids=["-".join(form) for form in FORMS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    mode, form = request.param
    return make(tmp_path, f", 'log.changelog-mode' = '{mode}', 'log-store.data-format' = '{form}'")


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_change_is_above_what_a_stream_has_decided_before(table: Table, state: str) -> None:
    owner = decided(table, "stream", 0, 1, 3, 4, 5)
    if state == "dead":
        silence(table, "stream")
    change(table)
    check(table, CHANGED)
    if state == "alive":
        seal(owner)
        check(table, CHANGED)
        task = attempt(table.logical, "stream", 1, rows(3, name="again"))
        owner.commit(1, [task.finish()])
        check(table, sorted([*CHANGED, (3, "again")]))


@pytest.mark.parametrize("state", ["alive", "comes back"])
def test_so_it_is_in_a_table_without_a_log(tmp_path: Path, state: str) -> None:
    table = without_log(tmp_path)
    owner = decided(table, "stream", 0, 1, 3, 4, 5)
    change(table)
    check(table, CHANGED)
    seal(owner if state == "alive" else decided(table, "stream", 0, 1, 3, 4, 5))
    check(table, CHANGED)


def test_an_overwrite_without_the_log_follows_the_decided_epochs(tmp_path: Path) -> None:
    table = without_log(tmp_path)
    decided(table, "stream", 0, 1, 2)
    table.write(rows(7, name="whole"), overwrite=True)
    check(table, [(7, "whole")])


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_write_is_above_one_that_died_before_its_snapshot(table: Table, monkeypatch, state: str) -> None:
    first = dies_before_its_snapshot(table, monkeypatch, 1, 3, 4, 5, 6, name="first")
    if state == "dead":
        silence(table, first)
    assert files(table) == [(number, "first") for number in (1, 3, 4, 5, 6)], "it has decided"
    change(table)
    want = [(1, "first"), *CHANGED[1:]]
    assert files(table) == want
    if first in table.logical.registered.writers():
        silence(table, first)
    lake = connect(warehouse=table.path.rsplit("/", 2)[0])
    list(Optimizer(lake, OptimizerSettings(kinds=("healing",))).once())
    check(table, want)
    assert table.logical.registered.writers() == []


@pytest.mark.parametrize("end", ["commits", "aborts", "dies"])
def test_a_row_that_comes_while_a_dead_writer_is_taken_back(table: Table, monkeypatch, end: str) -> None:
    take_back_while_a_row_comes(table, monkeypatch, end)


def test_a_row_that_is_decided_while_a_dead_writer_is_taken_back(table: Table, monkeypatch) -> None:
    write(table, *range(8), name="r0")
    _, dead = open_write(table, *range(8), name="dead")
    live, _ = open_write(table, *range(0, 8, 2), name="r1")
    silence(table, dead)
    while_it_heals(monkeypatch, live.commit)
    list(take_over(table.logical))
    live.close()
    check(table, [(n, "r0" if n % 2 else "r1") for n in range(8)])


def test_rows_of_two_that_decide_in_the_other_order_than_they_wrote(table: Table) -> None:
    first, _ = open_write(table, *range(8), name="first")
    second, _ = open_write(table, *range(8), name="second")
    second.commit()
    first.commit()
    check(table, [(n, "first") for n in range(8)])
    for writer in (first, second):
        writer.close()
