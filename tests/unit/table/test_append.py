from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import CommitConflict, InvalidRequest, InvalidSchema, Unavailable
from lakelog.filestore.store import FileStore
from lakelog.table.commit.append import commit_append
from lakelog.table.commit.committer import Committer
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.model.log_state import state_of
from lakelog.table.staging.task_writer import TaskWriter


def make(lake, more: str = ""):
    lake.sql(
        f"create table db.t (id int, name string, primary key (id)) using lakelog tblproperties ('bucket' = '2'{more})"
    )
    return lake.table("db.t")


def rows(ids: range, name: str) -> pa.RecordBatch:
    # long enough for files: small runs travel inline
    return pa.record_batch({"id": pa.array(ids, pa.int32()), "name": [name.ljust(200, ".")] * len(ids)})


def attempt(table, lane: int, *batches: pa.RecordBatch) -> AttemptResult:
    task = TaskWriter(table.logical, "w", 0, lane)
    for batch in batches:
        task.write(batch)
    return task.finish()


def names(table) -> dict[int, str]:
    return {r["id"]: r["name"].rstrip(".") for r in table.scan().to_arrow().to_pylist()}


def written(*results: AttemptResult) -> set[str]:
    return {f.file_name for r in results for run in r.runs for f in run.files}


def named(table, above: int = 0) -> set[str]:
    store = table.logical.store
    before = {e.file.file_name for e in store.live_entries(store.snapshot(above))} if above else set()
    return {e.file.file_name for e in store.live_entries(store.latest_snapshot())} - before


def data_files(tmp_path) -> list[str]:
    return sorted(path.name for path in tmp_path.rglob("data-*.parquet"))


def test_one_write_is_one_snapshot_and_leaves_no_epoch(lake) -> None:
    table = make(lake)
    table.write(rows(range(3), "a"))
    snapshot = table.latest_snapshot()
    assert (snapshot.id, snapshot.commit_kind) == (1, "APPEND")
    assert table.logical.registered.writers() == []
    assert state_of(snapshot).writers == {}


def test_files_of_several_tasks_are_named_as_they_are(lake) -> None:
    table = make(lake)
    for number, first in enumerate((0, 5_000)):
        results = [attempt(table, lane, rows(range(first, 20_000), f"{number} {lane}")) for lane in range(3)]
        snapshot = commit_append(table.logical, f"w{number}", results)
        assert written(*results) and named(table, snapshot.id - 1) == written(*results)
    found = names(table)
    # the last task of an epoch counts as the newest
    assert {found[i] for i in range(5_000)} == {"0 2"} and {found[i] for i in range(5_000, 20_000)} == {"1 2"}


def test_files_of_a_task_with_a_small_buffer_are_named_as_they_are(lake) -> None:
    table = make(lake, ", 'write-buffer-size' = '1 mb'")
    results = [attempt(table, 1, *(rows(range(4_000), f"{n}") for n in range(4)))]
    assert len(results[0].runs) > 2
    commit_append(table.logical, "w", results)
    assert named(table) == written(*results)
    assert set(names(table).values()) == {"3"}


def test_rows_that_others_overtook_are_above_them(lake, tmp_path) -> None:
    table = make(lake)
    late = attempt(table, 0, rows(range(20_000), "late"))
    commit_append(table.logical, "other", [attempt(table, 0, rows(range(20_000), "early"))])
    commit_append(table.logical, "w", [late])
    assert set(names(table).values()) == {"late"}


def test_no_rows_make_no_snapshot(lake) -> None:
    table = make(lake)
    assert commit_append(table.logical, "w", [attempt(table, 0)]) is None
    assert table.latest_snapshot() is None


def test_a_lost_commit_leaves_nothing(lake, tmp_path, monkeypatch) -> None:
    table = make(lake)
    results = [attempt(table, 0, rows(range(20_000), "a"))]
    assert data_files(tmp_path)

    def lost(*_: object) -> None:
        raise CommitConflict("lost")

    monkeypatch.setattr(FileStore, "commit", lost)
    with pytest.raises(CommitConflict):
        commit_append(table.logical, "w", results)
    assert data_files(tmp_path) == [] and table.latest_snapshot() is None


def test_a_writer_that_fails_leaves_nothing(lake, tmp_path, monkeypatch) -> None:
    table = make(lake, ", 'write-buffer-size' = '1 mb'")
    with pytest.raises(InvalidSchema), table.writer() as writer:
        writer.write(rows(range(20_000), "a"))
        assert data_files(tmp_path)
        writer.write(pa.record_batch({"id": pa.array([None], pa.int32()), "name": ["b"]}))
    assert data_files(tmp_path) == [] and table.latest_snapshot() is None


def test_a_commit_that_fails_keeps_files_that_a_snapshot_may_name(lake, tmp_path, monkeypatch) -> None:
    table = make(lake)

    def away(*_: object) -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable), table.writer() as writer:
        writer.write(rows(range(20_000), "a"))
        monkeypatch.setattr(FileStore, "commit", away)
        writer.commit()
    assert data_files(tmp_path)


@pytest.mark.parametrize("log", ["", ", 'log-store.enabled' = 'true'"], ids=["files", "log"])
def test_a_commit_that_failed_is_not_done_again_without_its_rows(lake, monkeypatch, log) -> None:
    table = make(lake, log)
    writer = table.writer()
    writer.write(rows(range(3), "a"))

    def away(*_: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(FileStore, "commit", away)
    monkeypatch.setattr(Committer, "commit", away)
    with pytest.raises(Unavailable):
        writer.commit()
    monkeypatch.undo()
    with pytest.raises(InvalidRequest, match="earlier call failed|is closed"):
        writer.commit()
    writer.close()
    assert names(table) == {} and table.logical.registered.writers() == []


def test_a_log_in_the_table_directory_keeps_its_state(lake) -> None:
    table = make(lake, ", 'log-store.enabled' = 'true'")
    table.write(rows(range(3), "both"))
    state = state_of(table.latest_snapshot())
    table.write(rows(range(1), "files"), options={"emit.mode": "file"})
    assert state.writers and state_of(table.latest_snapshot()) == state
    assert names(table) == {0: "files", 1: "both", 2: "both"}


def test_what_travels_to_the_driver_is_bounded_over_all_tasks_not_for_each_bucket(lake) -> None:
    lake.sql("create table db.wide (id int, name string, primary key (id)) using lakelog tblproperties ('bucket'='64')")
    table, batch = lake.table("db.wide"), rows(range(3000), "x")

    def inline(lane: int) -> tuple[int, int]:
        runs = attempt(table, lane, batch).runs
        return sum(bool(run.inline) for run in runs), sum(len(run.inline) for run in runs)

    assert inline(0)[0] == inline(7)[0] == 64
    count, size = inline(1_000)
    assert 0 < count < 64
    assert size < 128 << 10
    assert inline(1 << 30) == (0, 0)


def test_rows_that_do_not_travel_inline_are_in_the_same_snapshot(lake) -> None:
    table = make(lake)
    commit_append(
        table.logical, "w", [attempt(table, lane, rows(range(lane % 7, 2000, 7), "n")) for lane in (3, 2_000)]
    )
    assert set(names(table).values()) == {"n"}
    assert len(names(table)) == len({*range(3, 2000, 7), *range(2000 % 7, 2000, 7)})
