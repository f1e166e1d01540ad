"""A process is suspended while its table is renamed and another table is created under the old name; then it resumes.

It must leave no schema in the new table, and must not correct the log of the renamed table by the new table's state.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog import connect
from lakelog.catalog.directories import Directories
from lakelog.errors import TableReplaced
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table
from lakelog.logstore.clients import reader_for
from lakelog.table.commit.committer import Committer
from lakelog.table.commit.log_repair import LogRepair
from lakelog.table.commit.take_over import take_over
from lakelog.table.log.register import register_writer
from lakelog.table.model.registrations import STREAM
from lakelog.table.staging.task_writer import TaskWriter
from log_tables import silence
from two_lakes import opened, rows, stores, write

_LOG = "tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
_LOGS = pytest.mark.parametrize("log", [_LOG, ""], ids=["log", "no log"])
_CREATE = "create table db.x (id int, v string, primary key (id)) "


class Died(BaseException):
    """The process is killed."""


def haunted(lakes: tuple[Lake, Lake], log: str) -> tuple[Table, Table]:
    """The renamed table with a handle by its old name, and a new one with a schema of the renamed table behind its own.

    An ALTER was suspended before it created its schema, and has died before it could see that the table is another one.
    """
    service, owner = lakes
    opened(lakes, log)
    same = Directories._check_same
    handles = []

    def suspended(catalog: Directories, before: object) -> None:
        same(catalog, before)  # type: ignore[arg-type]
        patched.setattr(Directories, "_check_same", died)
        owner.sql("alter table db.x rename to db.y")
        owner.sql(_CREATE + log)
        handles.append(owner.table("db.x"))

    def died(*_: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Directories, "_check_same", suspended)
        with pytest.raises(Died):
            service.sql("alter table db.x add column w array<int>")
    (table,) = handles
    assert (Path(table.path) / "schema" / "schema-1").exists()
    return owner.table("db.y"), table


@_LOGS
def test_a_schema_of_another_table_is_not_the_newest_one(lakes: tuple[Lake, Lake], log: str) -> None:
    renamed, table = haunted(lakes, log)
    assert table.schema.names == ["id", "v"]
    write(table, 5, "own")
    assert stores(table) == stores(lakes[0].table("db.x")) == [(5, "own")]
    assert stores(renamed) == [(1, "before")]
    lakes[1].sql("alter table db.x add column z int")
    assert lakes[0].table("db.x").schema.names == ["id", "v", "z"]
    write(table, 6, "by a handle from before")
    assert stores(lakes[1].table("db.x")) == [(5, "own"), (6, "by a handle from before")]
    lakes[1].sql("alter table db.x set tblproperties ('write-buffer-size' = '1 mb')")
    assert lakes[0].table("db.x$schemas").scan().to_arrow().num_rows == 3
    lakes[1].sql("drop table db.x")
    assert not lakes[0].table_exists("db.x")


def test_a_branch_does_not_begin_with_the_schema_of_another_table(lakes: tuple[Lake, Lake]) -> None:
    _, table = haunted(lakes, "")
    write(table, 5, "own")
    table.create_branch("e")
    branch = lakes[0].table("db.x$branch_e")
    assert branch.schema.names == ["id", "v"]
    write(branch, 6, "in the branch")
    assert stores(branch) == [(6, "in the branch")]


@_LOGS
def test_an_alter_that_wakes_up_behind_the_next_one_leaves_its_schema(lakes, log: str, monkeypatch) -> None:
    """Without it the numbers of the new table would have a gap, and its next schemas could not be found."""
    service, owner = lakes
    opened(lakes, log)
    same, calls = Directories._check_same, iter(range(2))

    def suspended(catalog: Directories, before: object) -> None:
        if next(calls):
            monkeypatch.setattr(Directories, "_check_same", same)
            owner.sql("alter table db.x add column z int")
            return same(catalog, before)  # type: ignore[arg-type]
        same(catalog, before)  # type: ignore[arg-type]
        owner.sql("alter table db.x rename to db.y")
        owner.sql(_CREATE + log)
        return None

    monkeypatch.setattr(Directories, "_check_same", suspended)
    with pytest.raises(TableReplaced):
        service.sql("alter table db.x add column w int")
    table = owner.table("db.x")
    assert table.schema.names == ["id", "v", "z"]
    write(table, 5, "own")
    assert stores(service.table("db.x")) == [(5, "own")]


@_LOGS
def test_a_handle_of_the_other_table_is_refused_although_its_schema_is_there(lakes, log: str) -> None:
    haunted(lakes, log)
    lakes[1].sql("alter table db.y add column w int")
    renamed = lakes[1].table("db.y")
    assert renamed.logical.schema.id == 1
    lakes[1].sql("drop table db.x")
    lakes[1].sql("alter table db.y rename to db.x")
    handle = lakes[1].table("db.x")
    lakes[1].sql("alter table db.x rename to db.y")
    lakes[1].sql(_CREATE + log)
    there = Path(handle.path) / "schema" / "schema-1"
    there.write_bytes((Path(renamed.path) / "schema" / "schema-1").read_bytes())
    with pytest.raises(TableReplaced):
        write(handle, 7, "foreign")
    assert stores(lakes[0].table("db.x")) == []


def test_the_snapshots_of_another_table_are_not_an_empty_table(lakes: tuple[Lake, Lake]) -> None:
    owner = lakes[1]
    table = opened(lakes, "")
    replace(owner)
    with pytest.raises(TableReplaced):
        table.logical.store.latest_snapshot()


def test_an_alter_behind_a_rename_leaves_no_directory(lakes: tuple[Lake, Lake], monkeypatch) -> None:
    service, owner = lakes
    table = opened(lakes, _LOG)
    same = Directories._check_same

    def suspended(catalog: Directories, before: object) -> None:
        same(catalog, before)  # type: ignore[arg-type]
        monkeypatch.setattr(Directories, "_check_same", same)
        owner.sql("alter table db.x rename to db.y")

    monkeypatch.setattr(Directories, "_check_same", suspended)
    with pytest.raises(TableReplaced):
        service.sql("alter table db.x add column w int")
    assert not Path(table.path).exists()


def open_rows(table: Table) -> None:
    """A streaming query that has written rows of an open epoch, and was killed."""
    register_writer(table.logical, "query", STREAM)
    task = TaskWriter(table.logical, "query", 0, 0)
    task.write(rows(1, "open").to_batches()[0])
    task.flush_log()
    silence(table, "query")


@pytest.fixture
def outside(tmp_path: Path) -> tuple[Table, Lake]:
    """A table with its log outside of its directory, as that on a broker, and the lake of somebody else."""
    option = {"catalog.external-paths": str(tmp_path)}
    lakes = tuple(connect(warehouse=str(tmp_path / "warehouse"), catalog_options=option) for _ in range(2))
    log = {"enabled": "true", "type": "embedded", "address": f"{tmp_path}/log.sqlite", "data-format": "debezium-json"}
    options = ", ".join(f"'log-store.{name}' = '{value}'" for name, value in log.items())
    return opened(lakes, f"tblproperties ({options}, 'log.changelog-mode' = 'all')"), lakes[1]  # type: ignore[arg-type]


def replace(owner: Lake) -> None:
    owner.sql("alter table db.x rename to db.y")
    owner.sql(_CREATE + _LOG)
    write(owner.table("db.x"), 1, "other")


def test_a_take_over_by_the_old_name_leaves_the_log_of_the_renamed_table_alone(outside: tuple[Table, Lake]) -> None:
    table, owner = outside
    open_rows(table)
    replace(owner)
    with pytest.raises(TableReplaced):
        list(take_over(table.logical))
    renamed = owner.table("db.y")
    assert list(take_over(renamed.logical)) == ["query"]
    assert stores(renamed) == [(1, "before")]


def test_corrections_by_the_state_of_another_table_are_not_appended(outside, monkeypatch) -> None:
    """The table is replaced between the look at its writers and the healing."""
    table, owner = outside
    repair = LogRepair.repair

    def suspended(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(LogRepair, "repair", repair)
        replace(owner)
        return repair(*arguments, **options)  # type: ignore[arg-type]

    open_rows(table)
    before = end_of(table)
    monkeypatch.setattr(LogRepair, "repair", suspended)
    with pytest.raises(TableReplaced):
        Committer(table.logical, "query", helps=True).take_back()
    renamed = owner.table("db.y")
    assert end_of(renamed) == before
    assert list(take_over(renamed.logical)) == ["query"]
    assert stores(renamed) == [(1, "before")]


def end_of(table: Table) -> int:
    assert table.logical.log is not None
    return reader_for(table.logical.log).end_offsets()[0]
