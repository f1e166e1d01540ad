"""Writers that commit at the same time: one seals the epochs of all (``table/commit/seal_turn.py``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from failing_jobs import Job, net
from failing_jobs import files as bag
from lakelog import Table, connect
from lakelog.errors import CommitDecided, Unavailable
from lakelog.io import clock
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
from lakelog.table.write.table_writer import TableWriter
from limits import unsealed
from log_tables import files, folded, rows, silence
from log_tables import make as make_table

KEYS = pytest.mark.parametrize("key", ["", ", primary key (id)"])


def make(tmp_path: Path, more: str = "", key: str = ", primary key (id)") -> Table:
    """A table whose commits are a snapshot each."""
    return make_table(tmp_path, f", 'commit.interval' = '0 s'{more}", key)


def two_at_work(table: Table) -> tuple[TableWriter, TableWriter]:
    """Two writers, each of which has committed and sees the other one's seal."""
    first, second = table.writer(), table.writer()
    for at, writer in enumerate((first, second)):
        writer.write(rows(at))
        writer.commit()
    return first, second


def hold(table: Table) -> Path:
    """The turn, held by a process that does nothing more."""
    path = Path(table.logical.path) / "lakelog" / "seal-turn"
    path.write_bytes(b"")
    return path


def told(table: Table) -> list[int]:
    """What a transactional reader of the log has returned."""
    tail = table.tail("earliest", stop="latest", options={"log.consistency": "transactional"})
    return sorted(row["id"] for batch in tail for row in batch.to_pylist())


@KEYS
def test_a_commit_is_done_when_another_writer_has_sealed_it(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    turn, before = hold(table), table.latest_snapshot().id
    waits: list[float] = []

    def the_holder_seals(pause_s: float) -> None:
        waits.append(pause_s)
        assert len(seal_staged(table.logical)) == 1

    monkeypatch.setattr(clock, "sleep", the_holder_seals)
    second.write(rows(5, 6))
    second.commit()
    assert len(waits) == 1 and turn.exists()
    assert table.latest_snapshot().id == before + 1
    assert [row[0] for row in files(table)] == [0, 1, 5, 6]
    assert told(table) == [0, 1, 5, 6]
    turn.unlink()
    for writer in (first, second):
        writer.close()
    assert table.logical.registered.writers() == [] and table.latest_snapshot().id == before + 1


@KEYS
def test_a_writer_that_closes_leaves_no_markers_to_a_sealer_that_died(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    hold(table)

    def the_holder_dies_after_its_snapshot(_: float) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("lakelog.table.commit.seal.append_markers", lambda *_: None)
            seal_staged(table.logical)

    monkeypatch.setattr(clock, "sleep", the_holder_dies_after_its_snapshot)
    second.write(rows(5))
    second.commit()
    assert told(table) == [0, 1]
    second.close()
    assert told(table) == [0, 1, 5]
    first.close()
    assert table.logical.registered.writers() == []


@KEYS
def test_a_dead_holder_of_the_turn_delays_one_commit(tmp_path: Path, monkeypatch, key: str) -> None:
    table = make(tmp_path, key=key)
    first, second = two_at_work(table)
    turn, clock = hold(table), Clock(monkeypatch)
    for at, writer in enumerate((second, first)):
        writer.write(rows(5 + at))
        writer.commit()
        assert not turn.exists()
        if not at:
            assert 3 < clock.now < 4
            clock.now = 0.0
    assert clock.now == 0.0
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == [0, 1, 5, 6]
    for writer in (first, second):
        writer.close()


@KEYS
def test_writers_that_are_alone_take_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    table = make(tmp_path, key=key)
    monkeypatch.setattr(seal_turn, "_take", lambda _: pytest.fail("no other writer seals"))
    for number in (0, 3, 6):
        with table.writer() as writer:
            for row in range(number, number + 3):
                writer.write(rows(row))
                writer.commit()
    assert len(files(table)) == 9


def decided(table: Table, monkeypatch, count: int) -> list[TableWriter]:
    """Writers that have decided an epoch each, with row n of the nth, and have not sealed it."""
    writers = [table.writer() for _ in range(count)]
    with monkeypatch.context() as patched:
        unsealed(patched)
        for at, writer in enumerate(writers):
            writer.write(rows(at))
            writer.commit()
    return writers


def test_many_writers_need_one_snapshot_and_one_segment_of_markers(tmp_path: Path, monkeypatch) -> None:
    table = make(tmp_path, ", 'log-store.type' = 'files'", key="")
    writers, made, create = decided(table, monkeypatch, 8), [], LocalFileIO.create

    def noted(io: LocalFileIO, path: str, data: bytes) -> bool:
        made.append(path.split("/")[-2])
        return create(io, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "create", noted)
        seal(writers[3]._sealer.committer)  # type: ignore[arg-type]
    assert (made.count("snapshot"), made.count("segments")) == (1, 1)
    for writer in writers:
        writer.close()
    assert table.latest_snapshot().id == 1
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == list(range(8))
    assert table.logical.registered.writers() == []


def test_a_snapshot_of_another_sealer_with_the_same_last_epoch_counts_for_its_epochs_only(
    tmp_path: Path, monkeypatch
) -> None:
    """A listing of the lanes is not atomic, so two sealers that end with the same epoch may have different ones."""
    table, create = make(tmp_path, key=""), LocalFileIO.create
    (one, other), is_first = decided(table, monkeypatch, 2), [True]
    missed = one._writer

    def after_another(io: LocalFileIO, path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" not in path or not is_first:
            return create(io, path, data)
        is_first.clear()
        with monkeypatch.context() as patched:
            found = type(table.logical.decided).all
            patched.setattr(
                "lakelog.table.model.decided_epochs.DecidedEpochs.all",
                lambda decided: [record for record in found(decided) if record.writer != missed],
            )
            assert seal(other._sealer.committer) is not None  # type: ignore[arg-type]
        return create(io, path, data)

    monkeypatch.setattr(LocalFileIO, "create", after_another)
    made = seal_staged(table.logical)
    assert [snapshot.id for snapshot in made] == [2]
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == [0, 1]
    assert table.logical.decided.all() == []
    for writer in (one, other):
        writer.close()


def test_a_listing_that_misses_an_epoch_of_a_lane_loses_none(tmp_path: Path, monkeypatch) -> None:
    table = make(tmp_path, key="")
    (writer,) = decided(table, monkeypatch, 1)
    with monkeypatch.context() as patched:
        unsealed(patched)
        for at in (1, 2):
            writer.write(rows(at))
            writer.commit()
    listed: Callable[[LocalFileIO, str], list] = LocalFileIO.list
    with monkeypatch.context() as patched:
        patched.setattr(
            LocalFileIO,
            "list",
            lambda io, path: [s for s in listed(io, path) if not s.name.endswith(("-" + "0" * 19, f"-{1:019d}"))],
        )
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
        assert len(seal_staged(table.logical)) == 1
    writer.close()
    assert [row[0] for row in files(table)] == [row[0] for row in folded(table)] == told(table) == [0, 1, 2]


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
        monkeypatch.setattr(clock, "sleep", self.sleep)
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
    table.write(rows(1, 2))
    job = Job(table)
    job.epoch(0, [20])
    append_late(table, monkeypatch)
    job.epoch(1, [21, 22, 23])  # reads the late rows
    job.epoch(2, [24])
    table.write(rows(30))
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
