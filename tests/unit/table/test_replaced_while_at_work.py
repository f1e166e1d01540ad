"""RENAME, DROP and CREATE in the middle of ALTER, CREATE, an expiry, or a decision: the new table stays as it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog.base import Identifier, TableLocation
from lakelog.catalog.directories import Directories
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.errors import CommitConflict, CommitUnknown, LakelogError, NotFound, TableReplaced, Unavailable
from lakelog.io.storage.local import LocalFileIO
from lakelog.logstore.base import LogLocation
from lakelog.logstore.embedded.system import EmbeddedLogSystem
from lakelog.logstore.factory import LogFactory
from lakelog.table import create as create_module
from lakelog.table.model.epoch_record import EpochRecord
from two_lakes import files, opened, stores, write

_LOG = " tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"


def before_call(monkeypatch: pytest.MonkeyPatch, method: str, part: str, act: Callable[[], None]) -> None:
    """Something happens right before the first call of the storage that names a path with this part."""
    call, left = getattr(LocalFileIO, method), [act]

    def calls(io: LocalFileIO, path: str, data: bytes) -> object:
        if part in path and left:
            left.pop()()
        return call(io, path, data)

    monkeypatch.setattr(LocalFileIO, method, calls)


def test_an_alter_that_began_before_rename_and_create_leaves_the_new_table_alone(lakes, monkeypatch) -> None:
    opened(lakes, _LOG)
    service, owner = lakes

    def replace_it() -> None:
        owner.sql("alter table db.x rename to db.y")
        owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")

    before_call(monkeypatch, "create", "/schema/schema-1", replace_it)
    with pytest.raises(TableReplaced, match=r"db\.x was dropped or renamed while it was changed"):
        service.sql("alter table db.x add column w int")
    write(owner.table("db.x"), 5, "new")
    assert stores(owner.table("db.x")) == [(5, "new")]
    assert stores(owner.table("db.y")) == [(1, "before")]
    owner.sql("alter table db.x add column u int")
    assert owner.table("db.x").schema.names == ["id", "v", "u"]


def test_an_alter_that_wakes_up_leaves_the_schema_of_the_table_that_took_its_place(lakes, monkeypatch) -> None:
    """It has created schema 1, and is suspended while another table of its name gets a schema 1, too."""
    opened(lakes, _LOG)
    service, owner = lakes
    check = Directories._check_same
    calls: list[TableLocation] = []

    def suspended(self: Directories, before: TableLocation) -> None:
        calls.append(before)
        if len(calls) == 2:
            owner.sql("drop table db.x")
            owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
            owner.sql("alter table db.x rename column v to u")
            owner.table("db.x").write(pa.table({"id": pa.array([5], pa.int32()), "u": ["new"]}))
        check(self, before)

    monkeypatch.setattr(Directories, "_check_same", suspended)
    with pytest.raises(TableReplaced, match=r"db\.x was dropped or renamed while it was changed"):
        service.sql("alter table db.x add column w int")
    assert owner.table("db.x").schema.names == ["id", "u"]
    assert owner.table("db.x").scan().to_arrow().to_pylist() == [{"id": 5, "u": "new"}]
    (change,) = owner.table("db.x").tail(start="earliest", stop="latest")
    assert change.to_pylist() == [{"id": 5, "u": "new", "_row_kind": "+I"}]


def test_a_create_whose_answer_is_lost_has_made_a_table_with_its_log(lakes, monkeypatch) -> None:
    call = LocalFileIO.create

    def lose(io: LocalFileIO, path: str, data: bytes) -> bool:
        made = call(io, path, data)
        if path.endswith("/schema/schema-0"):
            raise CommitUnknown("the answer was lost")
        return made

    monkeypatch.setattr(LocalFileIO, "create", lose)
    lakes[1].sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    monkeypatch.undo()
    write(lakes[0].table("db.x"), 1, "row")
    assert stores(lakes[0].table("db.x")) == [(1, "row")]


def test_a_create_followed_by_a_catalog_outage_keeps_the_topic_of_its_table(lakes, monkeypatch) -> None:
    made, load = Directories.create_table, Directories.load_table

    def away(*_: object) -> TableLocation:
        raise Unavailable("the catalog is away")

    def create(catalog: Directories, *given: object) -> TableLocation:
        made(catalog, *given)  # type: ignore[arg-type]
        monkeypatch.setattr(Directories, "load_table", away)
        raise Unavailable("the catalog is away")

    monkeypatch.setattr(Directories, "create_table", create)
    with monkeypatch.context() as patched:  # as for a topic on a server
        patched.setattr(create_module, "log_factory", lambda name: LogFactory(name, ""))
        with pytest.raises(Unavailable, match="the catalog is away"):
            lakes[1].sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    monkeypatch.setattr(Directories, "load_table", load)
    write(lakes[0].table("db.x"), 1, "row")
    assert stores(lakes[0].table("db.x")) == [(1, "row")]


@pytest.mark.parametrize("others", [1, 2])
def test_a_create_that_fails_leaves_the_log_to_those_that_have_adopted_it(lakes, monkeypatch, others: int) -> None:
    lakes[1].sql("create database db")

    def create() -> None:
        lakes[1].sql(f"create table if not exists db.x (id int, v string, primary key (id)) {_LOG}")

    def disk_is_away() -> None:
        for _ in range(others):
            create()
        write(lakes[1].table("db.x"), 1, "row")
        raise Unavailable("the disk is away")

    before_call(monkeypatch, "create", "/schema/schema-0", disk_is_away)
    with pytest.raises(Unavailable, match="the disk is away"):
        create()
    monkeypatch.undo()
    write(lakes[0].table("db.x"), 2, "row")
    assert stores(lakes[0].table("db.x")) == [(1, "row"), (2, "row")]


def before_the_schema(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Something happens when a CREATE has made its log, before its catalog looks at the directory."""
    call, left = Directories.create_table, [act]

    def calls(catalog: Directories, *given: object) -> TableLocation:
        if left:
            left.pop()()
        return call(catalog, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Directories, "create_table", calls)


def test_a_rename_that_was_too_late_leaves_the_log_of_a_table_that_is_being_created(lakes, monkeypatch) -> None:
    path = Path(opened(lakes, _LOG).path.removeprefix("file://"))
    owner, catalog = lakes[1], FilesystemCatalog(str(path.parents[1]), LocalFileIO())
    before = catalog.load_table(Identifier("db", "x"))
    owner.sql("alter table db.x rename to db.y")

    def rename_late() -> None:
        with pytest.raises(NotFound, match="dropped or renamed by another process"):
            catalog._move(before, str(path.with_name("z")))

    before_the_schema(monkeypatch, rename_late)
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    write(owner.table("db.x"), 5, "new")
    assert stores(owner.table("db.x")) == [(5, "new")]
    assert stores(owner.table("db.y")) == [(1, "before")]


def test_a_create_whose_log_was_moved_can_be_retried(lakes, monkeypatch) -> None:
    opened(lakes, _LOG)
    owner = lakes[1]
    directory = Path(owner.table("db.x").path.removeprefix("file://"))
    owner.sql("drop table db.x")

    def move_it() -> None:
        directory.rename(directory.with_name("away"))
        system = EmbeddedLogSystem()
        system.create(LogLocation("embedded", str(directory / "lakelog" / "log.sqlite"), "t", 1))

    before_the_schema(monkeypatch, move_it)
    create = f"create table db.x (id int, v string, primary key (id)) {_LOG}"
    with pytest.raises(CommitConflict, match=r"db\.x was moved away while the table was created: try again"):
        owner.sql(create)
    owner.sql(create)
    write(owner.table("db.x"), 5, "new")
    assert stores(owner.table("db.x")) == [(5, "new")]


def test_a_create_that_fails_alone_can_be_repeated(lakes, monkeypatch) -> None:
    lakes[1].sql("create database db")

    def disk_is_away() -> None:
        raise Unavailable("the disk is away")

    before_call(monkeypatch, "create", "/schema/schema-0", disk_is_away)
    for outcome in (pytest.raises(Unavailable), contextlib.nullcontext()):
        with outcome:
            lakes[1].sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    write(lakes[0].table("db.x"), 1, "row")
    assert stores(lakes[0].table("db.x")) == [(1, "row")]


def test_an_expiry_that_began_before_drop_and_create_keeps_the_new_snapshots(lakes, monkeypatch) -> None:
    table = opened(lakes, "")
    write(table, 2, "before")
    write(table, 3, "before")
    _, owner = lakes

    def replace_it() -> None:
        owner.sql("drop table db.x")
        owner.sql("create table db.x (id int, v string, primary key (id))")
        write(owner.table("db.x"), 5, "new")

    before_call(monkeypatch, "write", "/removals/", replace_it)
    with pytest.raises(TableReplaced):
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert files(owner.table("db.x")) == [(5, "new")]


@pytest.mark.parametrize("name", ["snapshot-1", f"{2:019d}"])
def test_a_process_that_is_suspended_before_a_deletion_deletes_no_file_of_the_new_table(
    lakes, monkeypatch, name: str
) -> None:
    """An expired snapshot, a sealed decision: both have names that the new table uses, too."""
    table = opened(lakes, _LOG)
    _, owner = lakes
    unlink, left = os.unlink, [True]

    def suspended(path: str, *, dir_fd: int | None = None) -> None:
        if os.path.basename(path) == name and left:
            left.pop()
            owner.sql("drop table db.x")
            owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
            new = owner.table("db.x")
            write(new, 5, "new")
            if name != "snapshot-1":
                assert new.logical.decided.decide(EpochRecord("w", 0, 1, ()), tip=1)[0].number == 2
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", suspended)
    with contextlib.suppress(LakelogError):
        write(table, 2, "before")
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert not left
    new = owner.table("db.x")
    assert files(new) == [(5, "new")]
    if name != "snapshot-1":
        assert [record.writer for record in new.logical.decided.all()] == ["w"]


def test_a_handle_of_before_takes_away_no_decision_of_the_new_table(lakes) -> None:
    old = opened(lakes, _LOG).logical.decided
    _, owner = lakes
    owner.sql("alter table db.x rename to db.y")
    owner.sql(f"create table db.x (id int, v string, primary key (id)) {_LOG}")
    new = owner.table("db.x")
    decided = new.logical.decided.decide(EpochRecord("w", 0, 1, ()))[0]
    with pytest.raises(TableReplaced):
        old.forget([EpochRecord("v", 0, 1, (), number=1)])
    with pytest.raises(TableReplaced):
        old.decide(EpochRecord("v", 0, 1, ()))
    assert new.logical.decided.all() == [decided]
