"""One order of what is decided, with the log in Kafka: acknowledged writes beside streams, dead writers and healers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.lake.table import Table
from lakelog.service.servers.server_process import KafkaBroker
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
    take_back_while_a_row_comes,
)


@pytest.fixture(params=FORMS, ids=["-".join(form) for form in FORMS])
def table(request: pytest.FixtureRequest, tmp_path: Path, kafka: KafkaBroker) -> Table:
    mode, form = request.param
    return make(
        tmp_path,
        f", 'log-store.address' = '{kafka.bootstrap}', 'log.changelog-mode' = '{mode}', "
        f"'log-store.data-format' = '{form}'",
    )


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_change_is_above_what_a_stream_has_decided_before(table: Table, state: str) -> None:
    owner = decided(table, "stream", 0, 1, 3, 4, 5)
    if state == "dead":
        silence(table, "stream")
    change(table)
    check(table, CHANGED)
    if state == "alive":
        seal(owner)
        task = attempt(table.logical, "stream", 1, rows(3, name="again"))
        owner.commit(1, [task.finish()])
        check(table, sorted([*CHANGED, (3, "again")]))


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_batch_write_is_above_one_that_died_before_its_snapshot(table: Table, monkeypatch, state: str) -> None:
    first = dies_before_its_snapshot(table, monkeypatch, 1, 3, 4, 5, 6, name="first")
    if state == "dead":
        silence(table, first)
    change(table)
    want = [(1, "first"), *CHANGED[1:]]
    assert files(table) == want
    if first in table.logical.registered.writers():
        silence(table, first)
    list(take_over(table.logical))
    check(table, want)


@pytest.mark.parametrize("end", ["commits", "aborts", "dies"])
def test_a_row_that_comes_while_a_dead_writer_is_taken_back(table: Table, monkeypatch, end: str) -> None:
    take_back_while_a_row_comes(table, monkeypatch, end)
