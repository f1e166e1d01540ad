"""The optimizer over real tables: what it runs and records, whom it leaves alone, how it stops."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.filestore.metadata.manifests import MANIFEST_CACHE
from lakelog.filestore.store import FileStore
from lakelog.io import clock
from lakelog.io.lease import Leases
from lakelog.io.metrics import METER
from lakelog.lake import Lake
from lakelog.service.optimizer import optimizer as optimizer_module
from lakelog.service.optimizer.optimizer import Event, Optimizer
from lakelog.service.optimizer.runner import RunContext, RunResult, run_action
from lakelog.service.optimizer.watcher import OptimizerSettings
from lakelog.table.health.actions import KINDS
from lakelog.table.maintenance.compaction_task import LocalExecutor, bucket_task, leases_of
from lakelog.table.maintenance.run_history import DONE, FAILED, NOTHING, STOPPED, WAITS
from log_tables import silence

_OLD = 8 * 24 * 3_600_000


def make(lake: Lake, name: str, writes: int = 5, options: str = "", buckets: int = 1) -> lakelog.Table:
    lake.sql(
        f"create table {name} (id int, name string, primary key (id)) "
        f"tblproperties ('write-only' = 'true', 'bucket' = '{buckets}'{options})"
    )
    table = lake.table(name)
    for number in range(writes):
        write(table, *range(number, number + 4 * buckets * buckets))
    return table


def write(table: lakelog.Table, *ids: int) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int32()), "name": ["a"] * len(ids)}))


def rows(table: lakelog.Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def once(lake: Lake, **settings: object) -> list[tuple[str, str, str]]:
    return [(run.table, run.kind, run.outcome) for run in Optimizer(lake, OptimizerSettings(**settings)).once()]


def test_it_runs_what_tables_need_and_records_it(lake: Lake) -> None:
    table = make(lake, "db.t")
    make(lake, "db.well", writes=1)
    before = rows(table)
    (planned,) = [found for found in Optimizer(lake).plan() if found.needs]
    assert (planned.table, [need.kind for need in planned.needs]) == ("db.t", ["compaction"])
    (run,) = Optimizer(lake).once()
    assert (run.table, run.kind, run.outcome) == ("db.t", "compaction", DONE)
    assert (run.files_before, run.files_after, run.snapshot) == (5, 1, 6)
    assert run.bytes_before > run.bytes_after > 0
    assert "the fullest has 5 sorted runs" in run.reason and run.process == os.getpid()
    assert table.runs() == [run]
    assert rows(table) == before
    assert once(lake) == []


def test_every_kind_does_what_the_table_then_no_longer_needs(lake: Lake, monkeypatch) -> None:
    lake.sql(
        "create table db.t (id int, day string, primary key (id, day)) partitioned by (day) tblproperties ("
        "'bucket' = '1', 'partition.expiration-time' = '7 d', 'write-only' = 'true', 'log-store.enabled' = 'true', "
        "'snapshot.num-retained.min' = '1', 'snapshot.num-retained.max' = '3', 'consumer.expiration-time' = '1 s', "
        "'full-compaction.delta-commits' = '3')"
    )
    table = lake.table("db.t")

    def more(number: int) -> None:
        with table.writer() as writer:
            days = ["2020-01-01", "2999-01-01"]
            writer.write(pa.table({"id": pa.array([number, number], pa.int32()), "day": days}))

    for number in range(6):
        more(number)
    table.create_tag("short", retained="1 ms")
    dead = table.writer()
    dead.write(pa.table({"id": pa.array([99], pa.int32()), "day": ["2999-01-01"]}))
    dead.flush()
    (name,) = table.logical.registered.writers()
    silence(table, name)
    now = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now() + _OLD)
    runs = {kind: outcome for _, kind, outcome in once(lake, parallel=1)}
    assert runs.pop("full-compaction") in (DONE, NOTHING)  # the compaction before it has done it
    assert runs == dict.fromkeys([kind for kind in KINDS if kind != "full-compaction"], DONE)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["id"], row["day"])) == [
        {"id": number, "day": "2999-01-01"} for number in range(6)
    ]
    left = {need.kind for need in table.health().needs}
    assert left <= {"expiry", "compaction"}, "what later runs have made"
    assert table.tags() == []


def test_only_the_kinds_and_tables_that_are_asked_for(lake: Lake) -> None:
    make(lake, "db.a")
    make(lake, "db.b")
    assert once(lake, kinds=("expiry",)) == []
    assert once(lake, tables=("db.b",)) == [("db.b", "compaction", DONE)]


def test_a_table_that_says_so_is_left_alone(lake: Lake) -> None:
    make(lake, "db.t", options=", 'optimizer.enabled' = 'false'")
    assert once(lake) == []


def test_tables_of_further_catalogs_are_maintained(lake: Lake, tmp_path: Path) -> None:
    lake.add_catalog("other", str(tmp_path / "elsewhere"))
    lake.sql("create database other.db")
    make(lake, "other.db.t")
    assert once(lake) == [("other.db.t", "compaction", DONE)]


def test_a_failing_table_is_reported_and_does_not_stop_the_others(lake: Lake, tmp_path: Path, monkeypatch) -> None:
    make(lake, "db.ill")
    make(lake, "db.well")
    compaction = FileStore.run_compaction

    def failing(store: FileStore, *given: object, **more: object) -> object:
        if store.table_path.endswith("/ill"):
            raise OSError("the disk is gone")
        return compaction(store, *given, **more)

    monkeypatch.setattr(FileStore, "run_compaction", failing)
    optimizer = Optimizer(lake)
    found = {run.table: run for run in optimizer.once()}
    assert found["db.well"].outcome == DONE
    assert (found["db.ill"].outcome, found["db.ill"].detail) == (FAILED, "OSError: the disk is gone")
    assert lake.table("db.ill").runs()[0].outcome == FAILED
    assert leases_of(lake.table("db.ill").logical).held() == {}


def test_a_table_whose_inspection_fails_is_reported_and_retried_with_growing_delays(
    lake: Lake, tmp_path: Path, monkeypatch
) -> None:
    make(lake, "db.ill")
    make(lake, "db.well")
    for path in (tmp_path / "warehouse" / "db.db" / "ill" / "manifest").iterdir():
        path.write_bytes(b"rubbish")
    MANIFEST_CACHE.clear()
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: now[0])
    optimizer = Optimizer(lake, OptimizerSettings(interval_s=30))
    delays = []
    for second in range(0, 300, 10):
        now[0] = second
        if any(found.failure for found in optimizer.plan()):
            delays.append(second)
    assert delays == [0, 30, 90, 210]
    assert [name for name, _ in optimizer.state().troubles] == ["db.ill"]


def test_new_tables_are_noticed_and_dropped_ones_forgotten(lake: Lake, tmp_path: Path) -> None:
    optimizer, seen = Optimizer(lake, OptimizerSettings(interval_s=0.1)), []
    make(lake, "db.first")
    thread = threading.Thread(target=optimizer.serve)
    thread.start()
    try:
        wait_for(lambda: [run.outcome for run in lake.table("db.first").runs()] == [DONE])
        lake.sql("drop table db.first")
        make(lake, "db.second")
        wait_for(lambda: [run.outcome for run in lake.table("db.second").runs()] == [DONE])
        wait_for(lambda: optimizer.state().tables == 1)
        seen.append(optimizer.state().troubles)
    finally:
        optimizer.stop()
        thread.join(120)
    assert not thread.is_alive()
    assert seen == [()]
    assert not (tmp_path / "warehouse" / "db.db" / "first").exists(), "nothing was written for a table that is gone"


def test_a_table_that_is_dropped_in_the_middle_of_a_run_gets_no_new_directory(lake: Lake, monkeypatch) -> None:
    table = make(lake, "db.t")

    def dropped(*_: object) -> RunResult:
        lake.sql("drop table db.t")
        return RunResult(FAILED, "NotFound: its files are gone")

    monkeypatch.setattr(optimizer_module, "run_action", dropped)
    assert once(lake) == [("db.t", "compaction", FAILED)]
    assert not Path(table.path).exists()


def wait_for(condition, seconds: float = 120.0) -> None:
    end = clock.monotonic_s() + seconds
    while True:
        try:
            if condition():
                return
        except lakelog.LakelogError:
            pass
        assert clock.monotonic_s() < end, "it did not happen"
        clock.sleep(0.02)


@pytest.mark.parametrize("slots", [1, 2])
def test_it_stops_at_the_next_safe_point_and_what_was_done_counts(lake: Lake, monkeypatch, slots: int) -> None:
    table = make(lake, "db.t", buckets=40)
    before = rows(table)
    compaction, done = FileStore.run_compaction, []

    def counted(store: FileStore, *given: object, **more: object) -> object:
        done.append(given)
        if len(done) == 2:
            optimizer.stop()
        return compaction(store, *given, **more)

    monkeypatch.setattr(FileStore, "run_compaction", counted)
    optimizer = Optimizer(lake, executor=LocalExecutor(slots))
    (run,) = optimizer.once()
    assert run.outcome == STOPPED
    assert 2 <= len(done) < 40
    assert "buckets left for the next run" in run.detail
    assert run.snapshot == table.latest_snapshot().id
    assert rows(table) == before
    assert leases_of(table.logical).held() == {}
    monkeypatch.undo()
    assert once(lake) == [("db.t", "compaction", DONE)]
    assert rows(table) == before


def test_a_run_ends_when_its_time_is_over(lake: Lake, monkeypatch) -> None:
    make(lake, "db.t", buckets=6)
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: now[0])
    compaction = FileStore.run_compaction

    def slow(store: FileStore, *given: object, **more: object) -> object:
        now[0] += 50
        return compaction(store, *given, **more)

    monkeypatch.setattr(FileStore, "run_compaction", slow)
    assert once(lake, run_s=100) == [("db.t", "compaction", STOPPED)]
    assert lake.table("db.t").runs()[0].detail.startswith("3 buckets compacted")


def test_a_compaction_takes_only_the_buckets_that_the_bytes_allow(lake: Lake) -> None:
    table = make(lake, "db.t", buckets=6)
    (need,) = table.health().needs
    (run,) = Optimizer(lake, OptimizerSettings(bytes_per_hour=need.bytes // 2)).once()
    assert 0 < run.bytes_before <= need.bytes // 2
    assert "waiting for the byte budget of the next hour" in run.detail
    (run,) = Optimizer(lake, OptimizerSettings(bytes_per_hour=1)).once()
    assert run.detail.startswith("1 bucket compacted")
    nothing = RunContext(lambda: False, most_bytes=1, may_exceed=False)
    assert run_action(table.logical, "compaction", nothing).outcome == WAITS


def test_a_bucket_that_another_process_has_is_left_to_it(lake: Lake) -> None:
    table = make(lake, "db.t")
    leases = leases_of(table.logical)
    (entry,) = {(e.partition, e.bucket) for e in table.logical.store.live_entries(table.latest_snapshot())}
    lease = leases.take(bucket_task(*entry))
    assert once(lake) == []
    assert run_action(table.logical, "compaction", RunContext(lambda: False)).outcome == WAITS
    leases.release(lease)
    assert once(lake) == [("db.t", "compaction", DONE)]


def test_a_run_that_could_do_nothing_leaves_no_record(lake: Lake, monkeypatch) -> None:
    table = make(lake, "db.t")
    monkeypatch.setattr(FileStore, "run_compaction", lambda *_, **__: None)
    assert once(lake) == [("db.t", "compaction", NOTHING)]
    assert table.runs() == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "compaction" not in kind])
def test_one_of_two_processes_runs_maintenance_of_the_whole_table(lake: Lake, kind: str) -> None:
    table = make(lake, "db.t", writes=1).logical
    leases = Leases(table.io, f"{table.path}/lakelog/optimizer")
    lease = leases.take(kind)
    done = run_action(table, kind, RunContext(lambda: False))
    assert (done.outcome, done.detail) == (WAITS, "another process is doing it")
    leases.release(lease)
    assert run_action(table, kind, RunContext(lambda: False)).outcome != WAITS
    assert leases.held() == {}


def test_events_are_reported(lake: Lake) -> None:
    make(lake, "db.t", buckets=2)
    events: list[Event] = []
    Optimizer(lake, listen=events.append).once()
    assert [(e.kind, e.table, e.total) for e in events] == [("inspected", "", 1), ("ended", "db.t", 0)]
    shutil.rmtree(lake.table("db.t").path + "/manifest")
    MANIFEST_CACHE.clear()
    events.clear()
    optimizer = Optimizer(lake, listen=events.append)
    optimizer.once()
    assert [e.kind for e in events] == ["failed", "inspected"]
    assert "next attempt in 30 s" in events[0].text


def test_its_state_says_what_waits_and_why(lake: Lake) -> None:
    make(lake, "db.a")
    make(lake, "db.b")
    states = []

    optimizer = Optimizer(lake, OptimizerSettings(parallel=1))
    end = METER.listen(lambda step: states.append(optimizer.state()) if step.name == "merge" else None)
    optimizer.once()
    end()
    first = states[0]
    ((table, why),) = [(w.table, w.why) for w in first.waiting]
    assert first.tables == 2
    assert {table, *(run.table for run in first.running)} == {"db.a", "db.b"}
    assert why == "1 runs are active"
    assert first.bytes_last_hour > 0
