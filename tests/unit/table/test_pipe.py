"""A pipe: rows that a Python function makes of a log are in another table once, whatever dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import lakelog
from lakelog import Lake, connect
from lakelog.cli.main import lakelog as command
from lakelog.errors import Fenced, InvalidRequest, InvalidSchema, TableReplaced

JOB = """
import sys, pyarrow.compute as pc, lakelog
lake = lakelog.connect(sys.argv[1])
def even(rows):
    print(rows.num_rows, flush=True)
    return rows.filter(pc.equal(pc.bit_wise_and(rows["id"], 1), 0))
for _ in lake.table("db.a").pipe(even, lake.table("db.b")): pass
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # nothing here needs Spark
    with connect(str(tmp_path / "warehouse")) as lake:
        lake.sql("create database db")
        yield lake


def made(lake: Lake, key: str = "primary key (id)", log: str = "'log-store.enabled' = 'true'") -> None:
    for name in ("a", "b"):
        lake.sql(f"create table db.{name} (id bigint, v bigint{', ' + key if key else ''}) tblproperties ({log})")


def rows(lake: Lake, name: str = "db.b") -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in lake.table(name).scan().to_arrow().to_pylist())


def large(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch["v"], 5))


def run(lake: Lake, function=large, **more) -> int:
    return sum(done.rows for done in lake.table("db.a").pipe(function, lake.table("db.b"), stop="latest", **more))


def test_rows_that_change_and_go_do_so_in_the_target(lake: Lake) -> None:
    made(lake)
    lake.sql("insert into db.a values (1, 1), (2, 20), (3, 30)")
    assert run(lake) == 3
    assert rows(lake) == [(2, 20), (3, 30)]
    lake.sql("update db.a set v = 2 where id = 2")  # it leaves the filter
    lake.sql("update db.a set v = 10 where id = 1")  # it enters it
    lake.sql("delete from db.a where id = 3")
    run(lake)
    assert rows(lake) == [(1, 10)]
    assert run(lake) == 0


@pytest.mark.parametrize("key", ["", "primary key (id)"])
@pytest.mark.parametrize("log", ["'log-store.enabled' = 'true'", "'bucket' = '1', 'bucket-key' = 'id'"])
def test_rows_that_the_target_rejects_are_kept_once_and_the_others_go_on(lake: Lake, key: str, log: str) -> None:
    made(lake, key)
    lake.drop_table("db.b")
    lake.sql(f"create table db.b (id bigint, v bigint check (v < 9) on violation reject{', ' + key if key else ''}) "
             f"tblproperties ({log})")  # fmt: skip
    for number in (0, 10):
        lake.table("db.a").write(pa.table({"id": [number + 1, number + 2], "v": [6, 60 + number]}))
        run(lake)
        run(lake)
    rejected = lake.table("db.b$rejected").scan().to_arrow().to_pylist()
    assert [row["text"] for row in rejected] == ["id=2, v=60, _row_kind=+I", "id=12, v=70, _row_kind=+I"]
    assert rows(lake) == [(1, 6), (11, 6)]
    lake.sql("alter table db.b drop constraint v_check; call sys.replay_rejected('db.b')")
    assert rows(lake) == [(1, 6), (2, 60), (11, 6), (12, 70)]


@pytest.mark.parametrize("key", ["", "primary key (id)"])
@pytest.mark.parametrize("content", ["changes", "input"])
def test_a_restarted_pipe_repeats_and_loses_nothing(lake: Lake, key: str, content: str) -> None:
    made(
        lake,
        key,
        f"'log-store.enabled' = 'true', 'log.content' = '{content}'" if key else "'log-store.enabled' = 'true'",
    )
    for number in range(4):
        lake.table("db.a").write(pa.table({"id": [number, 10 + number], "v": [number, 7]}))
        run(lake)
    assert rows(lake) == [(10 + number, 7) for number in range(4)]


def test_a_function_returns_frames_or_nothing_or_more_rows(lake: Lake) -> None:
    made(lake, key="")
    lake.table("db.a").write(pa.table({"id": [1, 2], "v": [1, 2]}))

    def doubled(batch: pa.RecordBatch) -> pl.DataFrame | None:
        frame = pl.DataFrame(batch).drop("_row_kind")
        return None if frame["id"].max() == 3 else pl.concat([frame, frame])

    assert sum(done.rows for done in lakelog.pipe(lake.table("db.a"), doubled, lake.table("db.b"), stop="latest")) == 2
    lake.table("db.a").write(pa.table({"id": [3], "v": [3]}))
    run(lake, doubled)
    assert rows(lake) == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_a_function_that_fails_leaves_its_rows_for_the_next_run(lake: Lake) -> None:
    made(lake)
    lake.sql("insert into db.a values (1, 9)")

    def fails(batch: pa.RecordBatch) -> None:
        raise ZeroDivisionError("at row 1")

    with pytest.raises(ZeroDivisionError, match="at row 1"):
        run(lake, fails)
    with pytest.raises(InvalidSchema, match="has no column 'w'"):
        run(lake, lambda batch: batch.rename_columns(["id", "w", "_row_kind"]))
    assert rows(lake) == []
    run(lake)
    assert rows(lake) == [(1, 9)]


def test_a_pipe_follows_new_columns(lake: Lake) -> None:
    made(lake)
    lake.sql("insert into db.a values (1, 9)")
    run(lake)
    lake.sql("alter table db.a add column w string")
    lake.sql("insert into db.a values (2, 8, 'x')")
    run(lake, lambda batch: batch.select(["id", "v", "_row_kind"]))
    assert rows(lake) == [(1, 9), (2, 8)]


def test_what_cannot_be_a_pipe_is_refused_before_anything_is_written(lake: Lake) -> None:
    made(lake)
    lake.sql("create table db.plain (id bigint, v bigint)")
    a, b = lake.table("db.a"), lake.table("db.b")
    for call, text in (
        (lambda: a.pipe(large, a), "the source and the target"),
        (lambda: a.pipe(large, b, start="now"), "start='now'"),
        (lambda: a.pipe(large, b, stop="later"), "stop='later'"),
        (lambda: a.pipe(large, b, name="x/y"), "cannot be called"),
        (lambda: a.pipe("large", b), "cannot be called"),
        (lambda: a.pipe(large, "db.b"), "is no table"),
        (lambda: lake.table("db.plain").pipe(large, b), "db.plain has no log"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            call()
    assert not list(Path(b.path).rglob("snapshot-*"))


def test_a_target_that_was_rolled_back_and_a_source_that_was_replaced_are_not_copied_on(lake: Lake) -> None:
    made(lake)
    lake.sql("insert into db.a values (1, 9)")
    run(lake)
    before = lake.table("db.b").latest_snapshot()
    lake.sql("insert into db.a values (2, 9)")
    run(lake)
    lake.table("db.b").rollback_to(before.id)
    lake.sql("insert into db.a values (3, 9)")
    with pytest.raises(InvalidRequest, match="was rolled back"):
        run(lake)
    assert rows(lake) == [(1, 9)]
    lake.sql("drop table db.a")
    lake.sql("create table db.a (id bigint, v bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
    with pytest.raises((InvalidRequest, TableReplaced), match="another table"):
        run(lake)


def test_the_same_pipe_twice_is_fenced(lake: Lake) -> None:
    made(lake)
    first = lake.table("db.a").pipe(large, lake.table("db.b"))
    lake.sql("insert into db.a values (1, 9)")
    next(first)
    run(lake)
    lake.sql("insert into db.a values (2, 9)")
    run(lake)
    with pytest.raises(Fenced, match="run only one"):
        for _ in first:
            pass
    assert rows(lake) == [(1, 9), (2, 9)]


def test_a_killed_pipe_goes_on_with_the_next_row(lake: Lake, tmp_path: Path) -> None:
    made(lake, key="")
    for number in range(5):
        lake.table("db.a").write(pa.table({"id": range(10 * number, 10 * number + 10), "v": [1] * 10}))
        job = [sys.executable, "-c", JOB, str(tmp_path / "warehouse")]
        with subprocess.Popen(job, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()  # its function runs, or has just run
            child.send_signal(signal.SIGKILL)
    run(lake, lambda batch: batch.filter(pc.equal(pc.bit_wise_and(batch["id"], 1), 0)))
    assert rows(lake) == [(number, 1) for number in range(0, 50, 2)]


def test_the_command_finds_a_function_in_the_current_directory(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake)
    lake.table("db.a").write(pa.table({"id": [1, 2], "v": [1, 9]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "pipe_functions.py").write_text("def later(rows):\n    return rows.slice(1)\n", encoding="utf-8")
    call = ["pipe", "db.a", "db.b", "--warehouse", "warehouse", "--stop", "latest", "--function"]
    done = CliRunner().invoke(command, [*call, "pipe_functions:later"])
    assert (done.exit_code, done.output) == (0, "2 rows, lag 0\n")
    assert rows(lake) == [(2, 9)]
    refused = CliRunner().invoke(command, [*call, "pipe_functions:sooner"]).exception
    assert isinstance(refused, InvalidRequest) and "write it as module:function" in str(refused).lower()
