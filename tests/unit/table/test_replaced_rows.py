"""Overwrites of a table with a key and a log of input rows, beside other writers and failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Unavailable
from lakelog.io.lease import Lease, Leases
from lakelog.io.storage.local import LocalFileIO
from lakelog.lake.table import Table
from lakelog.logstore.clients import close_clients
from lakelog.table.write import overwrite, replaced_rows
from lakelog.table.write.table_writer import TableWriter
from log_tables import files, folded, make, rows, write

UNION = {"read.mode": "union"}


def check(table: Table, wanted: list[tuple[int, str]]) -> None:
    assert files(table) == files(table, **UNION) == folded(table) == wanted


def after_its_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Calls ``act`` once, right after the epoch of the next overwrite."""

    class Writer(TableWriter):
        def close(self) -> None:
            super().close()
            monkeypatch.undo()
            act()

    monkeypatch.setattr(replaced_rows, "TableWriter", Writer)


def test_an_overwrite_that_is_decided_succeeds_although_its_files_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    write(table, 1, 2)

    def refuse(self: LocalFileIO, path: str) -> None:
        raise Unavailable("no answer")

    def fail() -> None:
        monkeypatch.setattr(LocalFileIO, "delete", refuse)

    after_its_commit(monkeypatch, fail)
    table.write(rows(2, 3, name="b"), overwrite=True)
    monkeypatch.undo()
    check(table, [(2, "b"), (3, "b")])


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_the_log_ends_with_the_committed_row_after_another_writer_of_the_key_gave_up(
    tmp_path: Path, vectors: str
) -> None:
    table = make(tmp_path, f", 'deletion-vectors.enabled' = '{vectors}'")
    write(table, 1, name="old")
    with table.writer() as writer:
        writer.write(rows(1, name="new"))
        writer.flush()
        with pytest.raises(ZeroDivisionError), table.writer() as other:
            other.write(rows(1, name="never"))
            other.flush()
            raise ZeroDivisionError
    assert folded(table) == files(table, **UNION) == [(1, "new")]


def by_day(tmp_path: Path, more: str = "") -> Table:
    """A table whose rows have their partition as name: one of ``old``, and one of ``new``."""
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (id int, name string, primary key (id, name)) using lakelog partitioned by (name) "
        f"tblproperties ('log-store.enabled' = 'true'{more})"
    )
    table = lake.table("db.t")
    write(table, 1, name="old")
    write(table, 2, name="new")
    return table


def test_a_dropped_partition_has_no_files(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    assert table.drop_partitions([{"name": "old"}]) is not None
    check(table, [(2, "new")])
    assert len(table.logical.store.live_entries(table.latest_snapshot())) == 1
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    assert lake.sql("show partitions db.t").to_arrow().column(0).to_pylist() == ["name=new"]


def test_a_row_that_comes_after_the_drop_of_its_partition_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_day(tmp_path)
    after_its_commit(monkeypatch, lambda: write(table, 9, name="old"))
    table.drop_partitions([{"name": "old"}])
    check(table, [(2, "new"), (9, "old")])


def test_a_row_that_comes_while_the_files_of_its_partition_are_dropped_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, drop = by_day(tmp_path), overwrite._drop_files

    def beside_a_writer(*given: Any) -> Any:
        write(table, 9, name="old")
        return drop(*given)

    monkeypatch.setattr(overwrite, "_drop_files", beside_a_writer)
    table.drop_partitions([{"name": "old"}])
    check(table, [(2, "new"), (9, "old")])


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_changelog_of_the_files_has_the_deletes_of_a_dropped_partition(tmp_path: Path, producer: str) -> None:
    table = by_day(tmp_path, f", 'changelog-producer' = '{producer}', 'write-only' = 'true'")
    table.compact(full=True)
    assert table.drop_partitions([{"name": "old"}]) is not None
    table.compact(full=True)
    newest = table.latest_snapshot()
    assert newest is not None
    assert newest.changelog_record_count == 1
    check(table, [(2, "new")])


def test_rows_of_other_partitions_do_not_keep_the_files_of_a_dropped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream commits all the time, also late rows into another old partition."""
    table, drop = by_day(tmp_path), overwrite._drop_files
    write(table, 3, name="older")

    def beside_a_writer(*given: Any) -> Any:
        write(table, 5, name="new")
        return drop(*given)

    def late_row() -> None:
        monkeypatch.setattr(overwrite, "_drop_files", beside_a_writer)
        write(table, 4, name="older")

    after_its_commit(monkeypatch, late_row)
    table.drop_partitions([{"name": "old"}, {"name": "older"}])
    check(table, [(2, "new"), (4, "older"), (5, "new")])
    live = table.logical.store.live_entries(table.latest_snapshot())
    assert len({entry.partition for entry in live}) == 2


def test_a_stream_that_reads_overwrites_does_not_get_the_rows_of_a_dropped_partition_again(tmp_path: Path) -> None:
    table = by_day(tmp_path)
    table.drop_partitions([{"name": "old"}])
    found: dict[int, str] = {}
    for plan in table.stream_plan(from_snapshot=1, options={"streaming-read-overwrite": "true"}):
        for row in plan.to_arrow().to_pylist():
            if row["_row_kind"][0] == "+":
                found[row["id"]] = row["name"]
            else:
                found.pop(row["id"], None)
    assert found == {2: "new"}


def test_two_overwrites_at_once_leave_the_rows_of_the_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path)
    write(table, 1, 2)
    waits = threading.Event()
    take, replace_rows = Leases.take, overwrite.replace_rows

    def taken(leases: Leases, task: str) -> Lease | None:
        found = take(leases, task)
        if found is None:
            waits.set()
        return found

    def second() -> None:
        table.write(rows(8, 9, name="second"), overwrite=True)
        close_clients()

    def beside(*given: Any) -> Any:
        monkeypatch.setattr(overwrite, "replace_rows", replace_rows)
        done.append(threads.submit(second))
        assert waits.wait(120)
        return replace_rows(*given)

    done: list[Future[None]] = []
    monkeypatch.setattr(Leases, "take", taken)
    monkeypatch.setattr(overwrite, "replace_rows", beside)
    with ThreadPoolExecutor(1) as threads:
        table.write(rows(5, 6, name="first"), overwrite=True)
        done[0].result()
    check(table, [(8, "second"), (9, "second")])


@pytest.mark.parametrize("act", ["truncate", "rollback", "overwrite"])
def test_rows_with_a_column_that_an_alter_added_meanwhile_are_taken_back_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    table = make(tmp_path)
    write(table, 1)
    first = table.latest_snapshot().id
    write(table, 2)
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    seal = replaced_rows.seal_decided

    def alter(logical: Any) -> None:
        monkeypatch.setattr(replaced_rows, "seal_decided", seal)
        lake.sql("alter table db.t add column w int")
        now = lake.table("db.t")
        now.write(rows(1).append_column("w", pa.array([5], pa.int32())))
        seal(logical)

    monkeypatch.setattr(replaced_rows, "seal_decided", alter)
    if act == "rollback":
        table.rollback_to(first)
    elif act == "truncate":
        table.truncate()
    else:
        table.write(rows(1), overwrite=True)
    now = lake.table("db.t")
    assert now.scan().to_arrow().to_pylist() == ([] if act == "truncate" else [{"id": 1, "name": "a", "w": None}])
    changes = [row for batch in now.tail("earliest", stop="latest") for row in batch.to_pylist()]
    back = [] if act == "rollback" else [("-", 5)]  # a rollback writes the new row of a key alone
    assert [(c["_row_kind"][0], c["w"]) for c in changes if c["w"] is not None] == [("+", 5), *back]
