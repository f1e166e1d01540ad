"""Batch writers that died are told from those that work, and what they left in the log is taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from debezium_consumer import folded
from lakelog.errors import Fenced
from lakelog.io import clock
from lakelog.lake.table import Table
from lakelog.options.log import WRITER_TIMEOUT
from lakelog.table import gone_writers
from lakelog.table.committer import register_writer
from lakelog.table.gone_writers import gone_batch_writers, heal_gone_writers
from lakelog.table.staged import BatchMark
from log_tables import files, make, rows

HOUR = 3_600_000


def die(tmp_path: Path, how: str) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join([*sys.path, str(here.parent.parent)])
    job = [sys.executable, str(here / "gone_writer_job.py"), str(tmp_path / "warehouse"), how]
    ended = subprocess.run(job, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert ended.returncode == -9, ended.stderr


def later(monkeypatch, millis: int) -> None:
    now = gone_writers.now_ms
    monkeypatch.setattr(gone_writers, "now_ms", lambda: now() + millis)


def seen(table: Table) -> list[tuple[int, str]]:
    """What a plain consumer of the log ends with."""
    values = [value for part in table.log_records() for value in part.column("value").to_pylist()]
    return sorted((row["id"], row["name"]) for row in folded(values, ["id"]).values())


@pytest.mark.parametrize("mode", ["upsert", "all"])
def test_rows_of_one_that_died_before_it_decided_are_taken_back(tmp_path, mode: str) -> None:
    table = make(tmp_path, f", 'log.changelog-mode' = '{mode}'")
    with table.writer() as writer:
        writer.write(rows(1, 2))
    die(tmp_path, "open")
    assert (1, "lost") in seen(table)
    (need,) = [need for need in table.health().needs if need.kind == "healing"]
    assert "1 dead batch writer" in need.reason
    ((gone, snapshot),) = heal_gone_writers(table.logical)
    assert snapshot is not None
    assert seen(table) == files(table) == [(1, "a"), (2, "a")]
    assert gone not in table.logical.staged.writers()
    assert table.health().needs == ()
    assert list(heal_gone_writers(table.logical)) == []


def test_rows_of_one_that_died_behind_its_decision_get_their_snapshot(tmp_path) -> None:
    table = make(tmp_path)
    die(tmp_path, "decided")
    assert [need.kind for need in table.health().needs] == ["healing"]
    list(heal_gone_writers(table.logical))
    assert seen(table) == files(table) == [(number, "kept") for number in (1, 7, 8, 9)]
    assert table.logical.staged.writers() == []
    assert table.health().figures.log.lag == 0


def test_one_that_works_and_a_streaming_query_are_left_alone_however_old(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    register_writer(table.logical, "query")
    later(monkeypatch, 100 * 24 * HOUR)
    assert gone_batch_writers(table.logical) == []
    writer.commit()
    writer.close()
    assert files(table) == [(1, "a")]


def test_one_of_another_machine_is_gone_when_it_has_been_silent_for_the_timeout(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    (name,) = table.logical.staged.writers()
    table.logical.staged.mark_batch(name, BatchMark())  # as a job of Spark says it
    timeout = int(table.logical.options.need(WRITER_TIMEOUT).total_seconds() * 1000)
    assert gone_batch_writers(table.logical) == []
    later(monkeypatch, timeout + 1000)
    assert gone_batch_writers(table.logical) == [name]
    ((gone, snapshot),) = heal_gone_writers(table.logical)
    assert gone == name and snapshot is not None
    assert seen(table) == []
    with pytest.raises(Fenced, match="or the batch again"):
        writer.commit()
    assert files(table) == []


def test_one_that_has_appended_lately_is_left_alone_though_it_came_long_ago(tmp_path, monkeypatch) -> None:
    table = make(tmp_path)
    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    (name,) = table.logical.staged.writers()
    table.logical.staged.mark_batch(name, BatchMark())
    origin = Path(table.logical.staged.origin_path(name))
    old = clock.now_ms() / 1000 - 2 * 3600
    os.utime(origin, (old, old))
    assert gone_batch_writers(table.logical) == [name]
    assert list(heal_gone_writers(table.logical)) == [(name, None)]
    writer.commit()
    writer.close()
    assert files(table) == [(1, "a")]


def test_a_writer_that_ends_well_leaves_no_mark(tmp_path) -> None:
    table = make(tmp_path)
    with table.writer() as writer:
        writer.write(rows(1))
        (name,) = table.logical.staged.writers()
        mark = table.logical.staged.batch_mark(name)
        assert mark is not None and mark.process == os.getpid()
    assert table.logical.staged.writers() == []
