"""Attacks on the turn to seal: dead holders beside other engines, storages that refuse, gaps, late rows, DROP."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from failing_jobs import Job, net
from failing_jobs import files as bag
from lakelog import Table, connect
from lakelog.errors import CommitDecided, Unavailable
from lakelog.io.storage.local import LocalFileIO
from lakelog.table.commit import seal_turn
from lakelog.table.commit.seal import seal, seal_staged
from lakelog.table.commit.take_over import take_over, take_over_now
from lakelog.table.log.register import register_writer
from lakelog.table.model.decided_epochs import DecidedEpochs
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.model.registrations import BATCH
from lakelog.table.staging import task_writer
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import files, folded, make, rows, silence
from sealing_writers import KEYS, hold, two_at_work


def append_late(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task appends, its writer is taken over, and the task, suspended behind its lease check, appends again."""
    register_writer(table.logical, "lost", BATCH)
    task = TaskWriter(table.logical, "lost", 0, 0)
    for name in ("early", "late"):
        with monkeypatch.context() as patched:
            if name == "late":
                silence(table, "lost")
                assert list(take_over(table.logical)) == ["lost"]
                patched.setattr(task_writer, "check_lease", lambda *_: None)
            task.write(rows(1, 3, 4, name=name).to_batches()[0])
            task.flush_log()
    assert (1, "late") in folded(table)


class Clock:
    """A clock that only ``sleep`` moves, and what else happens meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.now, self._meanwhile = 0.0, meanwhile
        monkeypatch.setattr(seal_turn, "sleep", self.sleep)
        monkeypatch.setattr(seal_turn, "monotonic_s", lambda: self.now)

    def sleep(self, pause_s: float) -> None:
        self.now += pause_s
        self._meanwhile()
        assert self.now < 60, "waits for ever"


@KEYS
def test_snapshots_of_others_that_seal_nothing_do_not_prolong_the_wait_for_a_dead_holder(
    tmp_path: Path, monkeypatch, key: str
) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    hold(table)
    clock = Clock(monkeypatch, table.analyze)
    second.write(rows(5))
    second.commit()
    assert clock.now < 4
    assert [row[0] for row in files(table)] == [0, 1, 5]
    for writer in (first, second):
        writer.close()


def test_seals_that_never_take_an_epoch_do_not_prolong_its_wait_for_ever(tmp_path: Path, monkeypatch) -> None:
    """An earlier version of lakelog seals the lane of its own writer only."""
    table, all_of = make(tmp_path, key=""), DecidedEpochs.all
    first, second = two_at_work(table)
    hold(table)
    job, epochs = Job(table), itertools.count()

    def sealed_by_an_earlier_version() -> None:
        job.epoch(next(epochs), [9])
        with monkeypatch.context() as patched:
            patched.setattr(
                DecidedEpochs, "all", lambda decided: [r for r in all_of(decided) if r.writer == job.writer]
            )
            assert seal(job.committer) is not None

    clock = Clock(monkeypatch, sealed_by_an_earlier_version)
    second.write(rows(5))
    second.commit()
    assert 8 < clock.now < 10
    assert [row[0] for row in files(table)].count(5) == 1
    for writer in (first, second):
        writer.close()


@KEYS
def test_a_storage_that_refuses_the_turn_delays_nobody(tmp_path: Path, monkeypatch, key: str) -> None:
    table, create = make(tmp_path, key=key), LocalFileIO.create
    first, second = two_at_work(table)

    def refuses(io: LocalFileIO, path: str, data: bytes) -> bool:
        if path.endswith("/seal-turn"):
            raise Unavailable("not allowed")
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", refuses)
    clock = Clock(monkeypatch)
    second.write(rows(5))
    second.commit()
    assert clock.now == 0
    assert [row[0] for row in files(table)] == [0, 1, 5]
    for writer in (first, second):
        writer.close()


@KEYS
def test_late_rows_that_an_unsealed_epoch_of_a_stream_has_read_are_taken_back_although_another_writer_seals(
    tmp_path: Path, monkeypatch, key: str
) -> None:
    table = make(tmp_path, key=key)
    with table.writer() as writer:
        writer.write(rows(1, 2))
    job = Job(table)
    job.epoch(0, [20])
    append_late(table, monkeypatch)
    job.epoch(1, [21, 22, 23])  # reads the late rows
    job.epoch(2, [24])
    with table.writer() as other:
        other.write(rows(30))
    monkeypatch.setattr("lakelog.table.commit.take_over.find_late_rows", lambda _: None)
    seal(job.committer)
    take_over_now(table.logical)
    if key:
        assert folded(table) == files(table)
    else:
        assert net(table) == bag(table)


@pytest.mark.parametrize("seen", [2, 3])
def test_a_listing_that_misses_an_epoch_before_a_gap_loses_none(tmp_path: Path, monkeypatch, seen: int) -> None:
    """A micro-batch without partitions decides nothing, so its epoch has no record."""
    table = make(tmp_path, key="")
    job = Job(table)
    job.epoch(0, [0])
    job.epoch(2, [2])
    job.epoch(3, [3])
    all_of = DecidedEpochs.all

    def missing(decided: DecidedEpochs) -> list[EpochRecord]:
        return [record for record in all_of(decided) if record.writer != job.writer or record.epoch >= seen]

    with monkeypatch.context() as patched, table.writer() as other:
        other.write(rows(9))
        patched.setattr(DecidedEpochs, "all", missing)
        other.commit()
    seal_staged(table.logical)
    assert [row[0] for row in files(table)] == [0, 2, 3, 9]


@KEYS
def test_a_writer_that_waits_while_its_table_is_dropped_leaves_nothing(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    hold(table)
    dropped: list[bool] = []

    def drop() -> None:
        if not dropped:
            dropped.append(True)
            connect(warehouse=str(tmp_path / "warehouse")).sql("drop table db.t")

    Clock(monkeypatch, drop)
    second.write(rows(5))
    with pytest.raises(CommitDecided, match="was dropped"):
        second.commit()
    place = Path(table.logical.path)
    assert not place.exists(), sorted(place.rglob("*"))
