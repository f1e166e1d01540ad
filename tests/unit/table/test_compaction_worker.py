"""The thread that compacts beside streaming writers: it delays no seal until too many sorted runs are there."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Unavailable
from lakelog.filestore.store import FileStore
from lakelog.paimon.rows.partition import encode_partition
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.seal_thread import Sealer
from lakelog.table.log.register import register_writer
from lakelog.table.maintenance import background as compaction_worker
from lakelog.table.maintenance.background import CompactionWorker
from lakelog.table.maintenance.compaction_task import bucket_task, leases_of
from lakelog.table.model.dynamic_table import DynamicTable
from lakelog.table.staging.task_writer import TaskWriter

LONG = 30.0


class ToldWorker(CompactionWorker):
    """Counts what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Semaphore(0)

    def notify(self, table: DynamicTable) -> None:
        super().notify(table)
        self.told.release()


class Writer:
    """A streaming writer as Spark drives it, whose compactions stop at a gate."""

    def __init__(self, table: DynamicTable, monkeypatch) -> None:
        self.table, self.epoch = table, 0
        self.gate, self.entered = threading.Event(), threading.Event()
        self.compactions = 0
        self.committer = Committer(table, "w")
        self.worker = ToldWorker()
        self.sealer = Sealer(self.committer, self.worker)
        register_writer(table, "w")
        run = FileStore.run_compaction

        def gated(store, *given, **named):
            self.compactions += 1
            self.entered.set()
            assert self.gate.wait(LONG)
            return run(store, *given, **named)

        monkeypatch.setattr(FileStore, "run_compaction", gated)

    def write(self) -> None:
        task = TaskWriter(self.table, "w", self.epoch, 0)
        ids = range(10 * self.epoch, 10 * self.epoch + 10)  # some for each bucket
        task.write(pa.record_batch({"id": pa.array(ids, pa.int32()), "name": ["a"] * 10}))
        self.committer.commit(self.epoch, [task.finish()])
        self.epoch += 1
        self.sealer.notify()

    def write_and_seal(self, count: int) -> None:
        for _ in range(count):
            self.write()
            assert self.worker.told.acquire(timeout=LONG)


@pytest.fixture
def make_writer(tmp_path, monkeypatch):
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    made: list[Writer] = []

    def make(**options: str) -> Writer:
        given = {"bucket": "1", "log-store.enabled": "true", "commit.interval": "0 ms", **options}
        text = ", ".join(f"'{key.replace('_', '.')}' = '{value}'" for key, value in given.items())
        lake.sql(f"create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ({text})")
        made.append(Writer(lake.table("db.t").logical, monkeypatch))
        return made[-1]

    yield make
    for writer in made:
        writer.gate.set()
        writer.worker.stop()


def levels(table: DynamicTable) -> list[int]:
    return sorted(e.file.level for e in table.store.live_entries(table.store.latest_snapshot()))


def test_a_compaction_that_takes_long_delays_no_seal(make_writer) -> None:
    writer = make_writer(**{"num-sorted-run.compaction-trigger": "2"})
    writer.write_and_seal(2)
    assert writer.entered.wait(LONG)
    writer.write_and_seal(2)
    assert writer.table.store.latest_snapshot().commit_kind == "APPEND"
    writer.gate.set()
    writer.worker.wait()
    assert levels(writer.table)[-1] > 0
    assert writer.table.store.read_table(writer.table.store.plan()).num_rows == 40


def test_seals_wait_when_a_bucket_has_too_many_runs_and_the_log_goes_on(make_writer) -> None:
    writer = make_writer(**{"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "4"})
    writer.write_and_seal(2)
    assert writer.entered.wait(LONG)
    writer.write_and_seal(2)
    waiting = threading.Event()
    wait_for = writer.worker._changed.wait_for

    def told(*given):
        waiting.set()
        return wait_for(*given)

    writer.worker._changed.wait_for = told
    writer.write()
    assert waiting.wait(LONG)
    assert not writer.worker.told.acquire(blocking=False)
    writer.write()  # decided and in the log, while seals wait
    assert [r.epoch for r in writer.table.decided.of("w")] == [4, 5]
    writer.gate.set()
    assert writer.worker.told.acquire(timeout=LONG)


def test_a_write_only_table_is_never_compacted(make_writer, monkeypatch) -> None:
    writer = make_writer(**{"num-sorted-run.compaction-trigger": "2", "write-only": "true"})
    sealed, forget = threading.Semaphore(0), Committer.append_commit

    def told(*given):
        forget(*given)
        sealed.release()

    monkeypatch.setattr(Committer, "append_commit", told)
    for _ in range(4):
        writer.write()
        assert sealed.acquire(timeout=LONG)
    assert not writer.worker.told.acquire(blocking=False)
    assert levels(writer.table) == [0, 0, 0, 0]


def test_what_a_compaction_fails_with_is_raised_by_the_next_epoch(make_writer, monkeypatch) -> None:
    writer = make_writer(**{"num-sorted-run.compaction-trigger": "2"})

    def failing(*given, **named):
        raise Unavailable("no storage")

    monkeypatch.setattr(FileStore, "run_compaction", failing)
    writer.write_and_seal(2)
    writer.worker.wait()
    with pytest.raises(Unavailable, match="no storage"):
        writer.write()
    assert writer.worker.take_failure() is None


def test_a_worker_that_is_stopped_finishes_its_bucket_and_leaves_the_others(make_writer) -> None:
    writer = make_writer(**{"bucket": "2", "num-sorted-run.compaction-trigger": "2"})
    writer.write_and_seal(2)
    assert writer.entered.wait(LONG)
    stopping = threading.Thread(target=writer.worker.stop)
    stopping.start()
    while not writer.worker._is_stopped:
        stopping.join(0.001)
    writer.gate.set()
    stopping.join(LONG)
    assert not stopping.is_alive()
    assert writer.compactions == 1
    assert levels(writer.table) == [0, 0, 2]
    assert writer.table.io.list(writer.table.store.paths.compaction_leases) == []
    writer.worker.notify(writer.table)
    assert writer.compactions == 1


def test_a_compaction_is_full_after_a_number_of_commits(make_writer) -> None:
    writer = make_writer(**{"full-compaction.delta-commits": "3"})
    writer.gate.set()
    for epochs in (3, 3):
        for _ in range(epochs):
            writer.write_and_seal(1)
            writer.worker.wait()
        assert levels(writer.table) == [5]
    again = CompactionWorker()  # another process knows it from the snapshots
    writer.write_and_seal(1)
    again.notify(writer.table)
    again.wait()
    assert levels(writer.table) == [0, 5]
    again.stop()


def test_rows_that_no_reader_sees_yet_are_compacted_when_another_compactor_has_finished(
    make_writer, monkeypatch
) -> None:
    monkeypatch.setattr(compaction_worker, "_RECHECK_S", 0.001)
    writer = make_writer(**{"deletion-vectors.enabled": "true"})
    writer.gate.set()
    store, leases = writer.table.store, leases_of(writer.table)
    held = leases.take(bucket_task(encode_partition((), store.schema), 0))
    writer.write_and_seal(1)
    writer.worker.wait()
    assert levels(writer.table) == [0]
    leases.release(held)
    while levels(writer.table) == [0]:
        writer.worker.wait()
    assert store.read_table(store.plan()).num_rows == 10


def test_another_table_of_the_name_does_not_meet_the_failure_of_the_one_that_was_dropped(tmp_path) -> None:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    definition = "create table db.t (id int, name string, primary key (id)) using lakelog"
    lake.sql(definition)
    old = compaction_worker.worker_for(lake.table("db.t").logical)
    handle = lake.table("db.t").logical
    lake.sql("drop table db.t")
    lake.sql(definition)
    old.notify(handle)
    old.wait()
    assert compaction_worker.worker_for(lake.table("db.t").logical).take_failure() is None
    assert "was dropped" in str(old.take_failure())
    compaction_worker.stop_workers()
