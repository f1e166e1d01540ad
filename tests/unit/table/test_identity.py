"""A handle belongs to the table that was opened, not to its name: RENAME, DROP and CREATE beside open handles."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from lakelog import connect
from lakelog.errors import AlreadyExists, InvalidRequest, NotFound, TableReplaced
from lakelog.filestore.commit.commit import TableCommit
from lakelog.io.storage.file_io import FileIO
from lakelog.lake.table import Table
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import Snapshot
from lakelog.table.commit.committer import Committer
from lakelog.table.log.register import register_writer
from lakelog.table.model.epoch_record import EpochRecord
from lakelog.table.staging.task_writer import TaskWriter
from two_lakes import files, opened, rows, stores, write

T = TypeVar("T")

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
_LOG = " tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
_OTHERS = {
    "the same columns": "id int, v string, primary key (id)",
    "another key": "id int, v string not null, primary key (v)",
    "another type": "id string, v string, primary key (id)",
}
_AFTER = pytest.mark.parametrize("change", ["rename", "drop"])
_LOGS = pytest.mark.parametrize("log", [_LOG, ""], ids=["log", "no log"])


@_LOGS
@pytest.mark.parametrize("other", _OTHERS)
def test_a_handle_from_before_drop_and_create_writes_nothing_into_the_new_table(lakes, other: str, log: str) -> None:
    table = opened(lakes, log)
    _, owner = lakes
    owner.sql("drop table db.x")
    owner.sql(f"create table db.x ({_OTHERS[other]}) {log}")
    with pytest.raises(TableReplaced, match=r"db\.x was dropped.*another table was created.*open it again") as refused:
        write(table, 2, "foreign")
    assert not refused.value.retriable
    with pytest.raises(TableReplaced, match=r"open it again"):
        files(table)
    new = owner.table("db.x")
    assert stores(new) == []
    assert new.latest_snapshot() is None
    write(new, "5" if other == "another type" else 5, "new")
    new.compact()
    assert [v for _, v in stores(new)] == ["new"]
    with pytest.raises(TableReplaced):
        files(table)
    assert lakes[0].table("db.x").scan().to_arrow().num_rows == 1


def test_a_commit_suspended_after_its_snapshot_deletes_none_of_the_new_table(lakes, monkeypatch) -> None:
    """DROP, CREATE and writes come between the creation of a snapshot and the look that follows it."""
    table = opened(lakes, "")
    _, owner = lakes
    create = TableCommit._create

    def paused(commit: TableCommit, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> bool:
        is_made = create(commit, snapshot, entries)
        monkeypatch.undo()
        owner.sql("drop table db.x")
        owner.sql("create table db.x (id int, v string, primary key (id))")
        for number in range(snapshot.id):
            write(owner.table("db.x"), number, "new")
        return is_made

    monkeypatch.setattr(TableCommit, "_create", paused)
    with pytest.raises(TableReplaced):
        write(table, 9, "foreign")
    new = owner.table("db.x")
    assert new.latest_snapshot().id == 2
    assert files(new) == [(0, "new"), (1, "new")]


@_LOGS
def test_a_writer_that_is_open_while_its_table_is_dropped_and_created_commits_nothing(lakes, log: str) -> None:
    table = opened(lakes, log)
    _, owner = lakes
    writer = table.writer()
    writer.write(rows(2, "foreign"))
    writer.flush()
    owner.sql("drop table db.x")
    owner.sql(f"create table db.x ({_OTHERS['the same columns']}) {log}")
    with pytest.raises(TableReplaced):
        writer.commit()
    with pytest.raises(TableReplaced):
        write(table, 3, "foreign")
    new = owner.table("db.x")
    assert stores(new) == []
    write(new, 5, "new")
    assert stores(new) == [(5, "new")]


@_LOGS
@_AFTER
def test_a_refused_write_leaves_no_ghosts_and_no_directory(lakes, change: str, log: str) -> None:
    table = opened(lakes, log)
    _, owner = lakes
    owner.sql("alter table db.x rename to db.y" if change == "rename" else "drop table db.x")
    with pytest.raises(TableReplaced, match=r"db\.x.*(dropped or renamed).*open it again"):
        write(table, 1, "refused")
    with pytest.raises(TableReplaced):
        files(table)
    assert not Path(table.path).exists()
    if change == "rename":
        assert stores(owner.table("db.y")) == [(1, "before")]
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {log}")
    assert stores(owner.table("db.x")) == []
    write(owner.table("db.x"), 3, "new")
    assert stores(owner.table("db.x")) == [(3, "new")]


@_LOGS
@_AFTER
def test_an_open_writer_of_a_table_that_goes_decides_nothing(lakes, change: str, log: str) -> None:
    table = opened(lakes, log)
    _, owner = lakes
    writer = table.writer()
    writer.write(rows(1, "refused"))
    writer.flush()
    owner.sql("alter table db.x rename to db.y" if change == "rename" else "drop table db.x")
    with pytest.raises(TableReplaced):
        writer.write(rows(2, "refused"))
        writer.commit()
    assert not Path(table.path).exists()
    if change == "rename":
        assert files(owner.table("db.y")) == [(1, "before")]
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {log}")
    assert stores(owner.table("db.x")) == []


def test_rows_that_the_renamed_table_has_in_its_log_are_known_there_as_those_of_an_open_writer(lakes) -> None:
    table = opened(lakes, _LOG)
    writer = table.writer()
    writer.write(rows(1, "refused"))
    writer.flush()
    lakes[1].sql("alter table db.x rename to db.y")
    with pytest.raises(TableReplaced):
        writer.commit()
    renamed = lakes[1].table("db.y")
    (open_writer,) = renamed.logical.registered.writers()
    renamed.end_writer(open_writer)
    assert stores(renamed) == [(1, "before")]


def test_a_decision_after_an_unnoticed_drop_and_create_does_not_count(lakes) -> None:
    """DROP and CREATE come between the last look of a writer and its decision."""
    table = opened(lakes, _LOG)
    _, owner = lakes
    writer = table.writer()
    writer.write(rows(2, "foreign"))
    task = writer._task.finish()
    owner.sql("drop table db.x")
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    decided, new = table.logical.decided, owner.table("db.x")
    decided.decide(EpochRecord(writer._writer, 0, 1, (task,)))
    assert stores(new) == []
    new.seal()
    assert stores(new) == []
    own = EpochRecord(writer._writer, 0, 2, ())
    assert new.logical.decided.decide(own)[1]
    write(new, 3, "new")
    assert stores(new) == [(3, "new")]
    assert new.logical.decided.all() == [], "the seal deletes the void link, too"


def test_writers_that_find_a_foreign_decision_at_once_both_decide(lakes) -> None:
    old = opened(lakes, _LOG).logical.decided
    _, owner = lakes
    owner.sql("drop table db.x")
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    old.decide(EpochRecord("old", 0, 1, ()))
    decided = owner.table("db.x").logical.decided
    acknowledged = []

    @contextlib.contextmanager
    def meanwhile() -> Iterator[FileIO]:
        acknowledged.append(decided.decide(EpochRecord("fast", 0, 2, ()))[0])
        yield decided.io

    acknowledged.append(replace(decided, own_directory=meanwhile).decide(EpochRecord("slow", 0, 3, ()))[0])
    assert {r.writer for r in acknowledged} == {r.writer for r in decided.all()} - {""}


@pytest.fixture
def log_file(lakes) -> Path:
    table = opened(lakes, _LOG)
    assert table.log is not None
    return Path(table.log.address)


def copied(log: Path, to: Path) -> None:
    """A copy of a log, made while its clients are open."""
    with contextlib.closing(sqlite3.connect(log)) as source, contextlib.closing(sqlite3.connect(to)) as target:
        source.backup(target)


def put(copy: Path, log: Path) -> None:
    """Puts a copy of a log in its place, as a restored backup is."""
    for beside in ("-wal", "-shm"):
        Path(f"{log}{beside}").unlink(missing_ok=True)
    copy.replace(log)


def test_a_log_that_is_deleted_under_its_clients_takes_no_rows_and_shows_none(lakes, log_file: Path) -> None:
    table = lakes[0].table("db.x")
    tail = table.tail("earliest")
    assert next(tail).num_rows == 1
    writer = table.writer()
    writer.write(rows(2, "lost"))
    for beside in ("", "-wal", "-shm"):
        Path(f"{log_file}{beside}").unlink(missing_ok=True)
    with pytest.raises(NotFound, match=r"log\.sqlite is missing: it was deleted"):
        writer.write(rows(3, "lost"))
    with pytest.raises(NotFound, match=r"log\.sqlite is missing"):
        write(table, 4, "lost")
    with pytest.raises(NotFound, match=r"log\.sqlite is missing"):
        next(tail)
    assert not log_file.exists()
    assert files(table) == [(1, "before")]


def test_an_older_copy_of_a_log_is_refused_by_those_who_have_it_open_and_by_new_ones(lakes, log_file, tmp_path) -> None:
    table = lakes[0].table("db.x")
    copied(log_file, tmp_path / "copy")
    write(table, 2, "replaced by a copy")
    tail = table.tail("latest")
    writer = table.writer()
    writer.write(rows(3, "open"))
    put(tmp_path / "copy", log_file)
    with pytest.raises(NotFound, match="replaced by a copy"):
        writer.write(rows(4, "open"))
    with pytest.raises(NotFound, match="an older copy"):
        next(tail)
    for _ in range(2):
        with pytest.raises(NotFound, match=r"log of table db\.x .*log\.sqlite\) ends at offset \d+ .* an older copy"):
            write(table, 4, "refused")
        with pytest.raises(NotFound, match="an older copy"):
            list(table.tail("earliest", stop="latest"))
    health = table.health()
    assert health.score <= 70
    assert "an older copy" in health.figures.log.trouble
    assert any("an older copy" in finding.reason for finding in health.findings)
    assert files(table) == [(1, "before"), (2, "replaced by a copy")]


def test_an_older_copy_is_known_by_rows_that_are_decided_and_in_no_snapshot(lakes, log_file, tmp_path) -> None:
    table = lakes[0].table("db.x")
    copied(log_file, tmp_path / "copy")
    register_writer(table.logical, "stream")
    task = TaskWriter(table.logical, "stream", 0, 0)
    task.write(rows(2, "decided").to_batches()[0])
    Committer(table.logical, "stream").commit(0, [task.finish()])
    put(tmp_path / "copy", log_file)
    table = connect(warehouse=lakes[0].warehouse).table("db.x")
    for use in (lambda: write(table, 4, "refused"), lambda: list(table.tail("earliest", stop="latest"))):
        with pytest.raises(
            NotFound, match=r"ends at offset \d+ in bucket 0, but rows .* up to \d+: it is an older copy"
        ):
            in_a_thread(use)
    assert "an older copy" in in_a_thread(table.health).figures.log.trouble
    assert files(table) == [(1, "before"), (2, "decided")]


def in_a_thread(work: Callable[[], T]) -> T:
    """Each thread has clients of its own, as each process has."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_tail_after_the_end_of_an_older_copy_raises_an_error(lakes, log_file, tmp_path) -> None:
    table = lakes[0].table("db.x")
    copied(log_file, tmp_path / "copy")
    writer = table.writer()
    writer.write(rows(2, "no snapshot knows it"))
    tail = table.tail("latest")
    put(tmp_path / "copy", log_file)
    with pytest.raises(NotFound, match="an older copy"):
        next(tail)


def test_the_same_log_put_in_its_place_again_is_used_on(lakes, log_file, tmp_path) -> None:
    table = lakes[0].table("db.x")
    writer = table.writer()
    writer.write(rows(2, "refused"))
    copied(log_file, tmp_path / "copy")
    put(tmp_path / "copy", log_file)
    with pytest.raises(NotFound, match="Try again"):
        writer.write(rows(2, "refused"))
    writer.close()
    write(table, 2, "after")
    assert stores(table) == [(1, "before"), (2, "after")]


def tables_with_one_log(tmp_path: Path, *places: str) -> list[Table]:
    """Tables named ``warehouse.table`` with the same address of an embedded log."""
    made = []
    for warehouse, name in (place.split(".") for place in places):
        lake = connect(warehouse=str(tmp_path / warehouse), catalog_options={"catalog.external-paths": str(tmp_path)})
        lake.sql(
            f"create table db.{name} (id int, v string, primary key (id)) tblproperties "
            f"('log-store.type' = 'embedded', 'log-store.address' = '{tmp_path}/log.sqlite', "
            "'log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
        )
        made.append(lake.table(f"db.{name}"))
    return made


def test_of_two_tables_with_the_address_of_one_log_the_first_to_write_has_it(tmp_path: Path) -> None:
    first, second = tables_with_one_log(tmp_path, "one.a", "two.b")
    assert list(second.tail("earliest", stop="latest")) == []
    write(first, 1, "a")
    with pytest.raises(InvalidRequest, match="has the rows of another table"):
        write(second, 2, "b")
    with pytest.raises(InvalidRequest, match="has the rows of another table"):
        list(second.tail("earliest", stop="latest"))
    write(first, 3, "a")
    assert stores(first) == [(1, "a"), (3, "a")]
    assert second.scan().to_arrow().num_rows == 0


def test_create_refuses_the_empty_log_of_another_table(tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists, match=r"is the log of table db\.a: choose another 'log-store\.address'"):
        tables_with_one_log(tmp_path, "one.a", "one.b")
    lake = connect(warehouse=str(tmp_path / "one"))
    assert lake.table_exists("db.a") and not lake.table_exists("db.b")
