"""Runs of maintenance beside a table: kept, bounded, told of a process that died, left alone by everybody else."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pyarrow as pa

import lakelog
from lakelog.io.clock import now_ms
from lakelog.io.names import new_uuid
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.table.maintenance import run_history as module
from lakelog.table.maintenance.run_history import DONE, FAILED, Run, Runs


def begun(at: int, kind: str = "compaction") -> Run:
    return Run.begun("db.t", kind, "because", at)


def test_a_run_is_there_from_its_begin_and_its_end_replaces_that() -> None:
    runs = Runs(MemoryFileIO(new_uuid()), "memory:/t")
    run = begun(now_ms())
    runs.record(run)
    assert runs.list() == [run]
    done = replace(run, outcome=DONE, files_before=3, snapshot=7)
    runs.record(done)
    assert runs.list() == [done]
    assert "/" not in done.host and done.process > 0
    runs.remove(done)
    assert runs.list() == []


def test_the_newest_come_first_and_a_kind_can_be_asked_for() -> None:
    runs = Runs(MemoryFileIO(new_uuid()), "memory:/t")
    for at, kind in ((5, "expiry"), (40, "compaction"), (7, "compaction")):
        runs.record(replace(begun(at, kind), outcome=DONE))
    assert [run.started_ms for run in runs.list()] == [40, 7, 5]
    assert [run.started_ms for run in runs.list(1, "compaction")] == [40]
    runs.record(replace(begun(90, "expiry"), outcome=FAILED))
    assert runs.last_completed_ms("expiry") == 5
    assert runs.last_completed_ms("healing") is None


def test_only_the_last_ones_are_kept_but_the_newest_of_each_kind_always(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 10)
    runs = Runs(MemoryFileIO(new_uuid()), "memory:/t")
    runs.record(replace(begun(1, "orphan-cleaning"), outcome=DONE))
    for at in range(2, 40):
        runs.record(replace(begun(at), outcome=DONE))
    assert [run.started_ms for run in runs.list()] == [*range(39, 29, -1), 1]
    assert runs.last_completed_ms("orphan-cleaning") == 1


def test_a_run_whose_process_has_ended_has_died() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    runs = Runs(MemoryFileIO(new_uuid()), "memory:/t")
    now = now_ms()
    runs.record(replace(begun(now), process=ended.pid))
    runs.record(replace(begun(now + 1), machine="another/boot", process=ended.pid))
    runs.record(replace(begun(now - 25 * 3_600_000), machine="another/boot"))
    assert [run.outcome for run in runs.list()] == ["running", "died", "died"]
    assert "for a day" in runs.list()[-1].detail


def test_files_of_others_in_the_directory_are_no_runs() -> None:
    runs = Runs(MemoryFileIO(new_uuid()), "memory:/t")
    runs.io.write(f"{runs.directory}/readme.txt", b"hello")
    runs.io.write(f"{runs.directory}/{1:015d}-expiry-{'0' * 16}.json", b"{half")
    runs.io.write(f"{runs.directory}/{2:015d}-expiry-{'0' * 16}.json", b'{"of_a_later_version": 1}')
    assert runs.list() == []


def test_runs_are_a_system_table_and_neither_scans_nor_orphan_cleaning_mind_them(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql("create database db; create table db.t (id int, primary key (id))")
    table = lake.table("db.t")
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    Runs(table.logical.io, table.path).record(replace(begun(1000), outcome=DONE, snapshot=1, bytes_before=9))
    (row,) = lake.table("db.t$runs").scan().to_arrow().to_pylist()
    assert (row["kind"], row["outcome"], row["snapshot_id"], row["bytes_before"]) == ("compaction", "done", 1, 9)
    assert table.remove_orphan_files(older_than="0 s").files == ()
    assert len(table.runs()) == 1
    assert table.scan().to_arrow().num_rows == 1
