"""``log-store.linger``: small writes share an append, and a writer keeps all its other promises."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import InvalidRequest, InvalidSchema, LakelogError, Unavailable
from lakelog.lake import Table
from lakelog.logstore.embedded.appender import EmbeddedAppender
from lakelog.table.staging.task_writer import TaskWriter
from lakelog.table.write import lingering_task
from log_tables import rows

HOUR = "1 h"


@pytest.fixture(params=["embedded", "files"])
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(tmp_path: Path, linger: str, system: str = "embedded") -> Table:
    lake = connect(warehouse=str(tmp_path))
    lake.sql(
        "create table db.t (id int, name string, primary key (id)) using lakelog tblproperties "
        f"('log-store.enabled' = 'true', 'log-store.type' = '{system}', 'log-store.linger' = '{linger}')"
    )
    return lake.table("db.t")


def in_files(table: Table) -> dict[int, str]:
    return {r["id"]: r["name"] for r in table.scan().to_arrow().to_pylist()}


def in_log(table: Table) -> list[tuple[int, str]]:
    log = table.tail(start="earliest", stop="latest")
    return [(r["id"], r["name"]) for batch in log for r in batch.to_pylist()]


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each append of a task to its log."""
    calls: list[int] = []
    append = TaskWriter._append_log

    def counted(self: TaskWriter, log: object, batch: pa.RecordBatch, *more: object) -> object:
        calls.append(batch.num_rows)
        return append(self, log, batch, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(TaskWriter, "_append_log", counted)
    return calls


def test_small_writes_are_one_append_and_all_there(tmp_path: Path, system: str, appends: list[int]) -> None:
    table = made(tmp_path, HOUR, system)
    with table.writer() as writer:
        for number in range(100):
            writer.write(rows(number))
    assert appends == [100]
    assert in_files(table) == dict.fromkeys(range(100), "a")
    assert in_log(table) == [(n, "a") for n in range(100)]


def test_the_last_of_writes_to_a_key_is_the_newest(tmp_path: Path, system: str) -> None:
    table = made(tmp_path, HOUR, system)
    with table.writer() as writer:
        for number in range(50):
            writer.write(rows(1, name=str(number)))
            if number % 20 == 7:
                writer.flush()
            if number == 30:
                writer.commit()
    assert in_files(table) == {1: "49"}
    assert dict(in_log(table)) == {1: "49"}


def test_rows_are_in_the_log_after_the_time_without_another_call(tmp_path: Path, system: str) -> None:
    table = made(tmp_path, "5 ms", system)
    with table.writer() as writer:
        writer.write(rows(1, 2))
        seen = next(iter(table.tail(start="earliest")))
        assert seen.column("id").to_pylist() == [1, 2]
        writer.write(rows(3))


def test_flush_ends_the_waiting(tmp_path: Path, system: str) -> None:
    table = made(tmp_path, HOUR, system)
    with table.writer() as writer:
        writer.write(rows(1))
        assert in_log(table) == []
        writer.flush()
        assert in_log(table) == [(1, "a")]
        writer.write(rows(2))


def test_rows_that_wait_when_the_block_fails_are_nowhere(tmp_path: Path, system: str) -> None:
    table = made(tmp_path, HOUR, system)
    with pytest.raises(ZeroDivisionError), table.writer() as writer:
        writer.write(rows(1))
        writer.flush()
        writer.write(rows(2))
        raise ZeroDivisionError
    assert in_files(table) == {}


@pytest.mark.parametrize("call", ["write", "flush", "commit", "close"])
def test_a_failed_append_fails_the_writer_whatever_is_called_next(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were taken before the failure became known must not be committed without those that failed."""
    table = made(tmp_path, HOUR)
    append, failed = EmbeddedAppender.append_all, threading.Event()

    def fails(*_: object) -> object:
        failed.set()
        raise Unavailable("the disk is full")

    writer = table.writer()
    writer.write(rows(1))
    writer.flush()
    monkeypatch.setattr(EmbeddedAppender, "append_all", fails)
    writer.write(rows(2))
    with pytest.raises(Unavailable, match="disk is full"):
        writer.flush()
    assert failed.is_set()
    monkeypatch.setattr(EmbeddedAppender, "append_all", append)
    if call == "close":
        writer.close()
    else:
        with pytest.raises(LakelogError, match="disk is full"):
            {"write": lambda: writer.write(rows(3)), "flush": writer.flush, "commit": writer.commit}[call]()
        writer.close()
    with pytest.raises(InvalidRequest, match="is closed"):
        writer.write(rows(4))
    assert in_files(table) == {}


def test_a_write_that_was_taken_while_another_failed_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, "1 ms")
    begun, go_on = threading.Event(), threading.Event()

    def fails(*_: object) -> object:
        begun.set()
        assert go_on.wait(120)
        raise Unavailable("the disk is full")

    append = EmbeddedAppender.append_all
    monkeypatch.setattr(EmbeddedAppender, "append_all", fails)
    with pytest.raises(Unavailable, match="disk is full"), table.writer() as writer:
        writer.write(rows(1))
        assert begun.wait(120)
        writer.write(rows(2))
        monkeypatch.setattr(EmbeddedAppender, "append_all", append)
        go_on.set()
    assert in_files(table) == {}


def test_a_bad_row_is_an_error_of_a_later_call(tmp_path: Path) -> None:
    table = made(tmp_path, HOUR)
    with pytest.raises(InvalidSchema, match="name2"), table.writer() as writer:
        writer.write(pa.table({"id": pa.array([1], pa.int32()), "name2": ["a"]}))
    assert in_files(table) == {}


def test_batches_of_other_schemas_keep_their_order(tmp_path: Path) -> None:
    table = made(tmp_path, HOUR)
    with table.writer() as writer:
        writer.write(rows(1, 2, 3))
        writer.write(rows(1).append_column("_row_kind", pa.array(["-D"])))
        writer.write(rows(2, name="b"))
    assert in_files(table) == {2: "b", 3: "a"}


def test_a_writer_that_is_ahead_waits_for_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appends: list[int]
) -> None:
    monkeypatch.setattr(lingering_task, "_MOST_BYTES", 1_000)
    table = made(tmp_path, HOUR)
    with table.writer() as writer:
        for number in range(100):
            writer.write(rows(*range(number * 10, number * 10 + 10)))
    assert len(appends) > 5
    assert len(in_files(table)) == 1_000


def test_a_closed_writer_may_be_closed_again(tmp_path: Path) -> None:
    with made(tmp_path, HOUR).writer() as writer:
        writer.write(rows(1))
        writer.commit()
        writer.close()
    writer.close()


def test_a_linger_that_is_no_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakelogError, match="log-store.linger"):
        made(tmp_path, "soon")
