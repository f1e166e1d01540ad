"""What ``lakelog ingest`` refuses, before anything is made; its command, its status, and what it prints."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakelog.cli.console.process import Process
from lakelog.cli.main import lakelog
from lakelog.errors import AlreadyExists, InvalidRequest, NotFound
from servers.postgres_server import PostgresServer
from source_database import SourceDatabase, differences, ingested

pytestmark = pytest.mark.postgres


def test_what_cannot_be_ingested_is_said_before_anything_is_made(database, lake) -> None:
    database.run("create table t (v int)", "create unlogged table u (id int primary key)")
    for table, why, kind in (
        ("t", "REPLICA IDENTITY FULL", InvalidRequest),
        ("u", "not logged", InvalidRequest),
        ("nothing", "no table public.nothing", NotFound),
    ):
        with pytest.raises(kind, match=why):
            ingested(lake, database, table)
    assert database.slots() == [] and not lake.table_exists("db.t")


def test_a_user_without_the_privilege_is_told(database, lake) -> None:
    database.run("create table t (id int primary key)")
    database.run(f"do $$ begin create role plain_{database.name} login password 'p'; end $$")
    other = database.url.replace("lake-user:lake-hush", f"plain_{database.name}:p")
    with pytest.raises(InvalidRequest, match="REPLICATION"):
        list(lake.ingest(other, ["t"], "db").run(once=True))


def test_a_slot_of_another_use_and_a_dropped_slot_are_refused(database, lake) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    database.run(f"select pg_create_logical_replication_slot('other_{database.name}', 'test_decoding')")
    with pytest.raises(InvalidRequest, match="another use"):
        list(lake.ingest(database.url, ["t"], "db", slot=f"other_{database.name}").run(once=True))
    ingested(lake, database, "t")
    lake.ingest(database.url, ["t"], "db").drop_slot()
    database.run("insert into t values (2)", "delete from t where id = 1")
    with pytest.raises(InvalidRequest, match="--copy-again"):
        ingested(lake, database, "t")
    ingested(lake, database, "t", copy_again=True)
    assert differences(lake, database, "t") == []


def test_a_table_with_rows_of_others_is_refused(database, lake) -> None:
    database.run("create table t (id int primary key)")
    lake.create_table("db.t", {"id": "int"}, primary_key="id")
    lake.sql("insert into db.t values (1)")
    with pytest.raises(AlreadyExists, match="not from this slot"):
        ingested(lake, database, "t")


def test_no_error_shows_the_password(database, lake) -> None:
    for address in (
        database.url.replace("lake-hush", "wrong-hush"),
        database.url.replace("postgres://", "pg://"),
        "postgres://user@host/database?password=hush&nothing=1",
    ):
        with pytest.raises(Exception, match=r"postgres|PostgreSQL") as failed:
            list(lake.ingest(address, ["t"], "db").run(once=True))
        assert "hush" not in str(failed.value)
    assert "hush" not in repr(lake.ingest(database.url, ["t"], "db"))


def test_the_status_tells_positions_and_the_slot(database, lake) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    made = lake.ingest(database.url, ["t"], "db")
    (before,) = made.status()
    assert (before.position, before.has_slot) == ("", False)
    ingested(lake, database, "t")
    (after,) = made.status()
    assert after.position and after.has_slot
    end = time.monotonic() + 120
    while made.status()[0].is_active:  # the server notices the end of the connection
        assert time.monotonic() < end
        time.sleep(0.05)


class Configured(PostgresServer):
    """A server with other settings."""

    settings: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *(part for setting in self.settings for part in ("-c", setting))]


@pytest.fixture
def configured(request: pytest.FixtureRequest) -> Iterator[SourceDatabase]:
    with tempfile.TemporaryDirectory(prefix="lakelog-postgres-") as place:
        server = Configured(place)
        server.settings = request.param
        with server:
            yield SourceDatabase(server)


@pytest.mark.parametrize("configured", [("wal_level=replica",)], indirect=True)
def test_a_server_without_logical_decoding_is_told_how(configured, lake) -> None:
    configured.run("create table t (id int primary key)")
    with pytest.raises(InvalidRequest, match="ALTER SYSTEM SET wal_level = 'logical'"):
        ingested(lake, configured, "t")
    assert not lake.table_exists("db.t")


@pytest.mark.parametrize("configured", [("max_slot_wal_keep_size=1MB",)], indirect=True)
def test_a_slot_that_has_lost_its_changes_is_named(configured, lake) -> None:
    configured.run("create table t (id int primary key)", "insert into t values (1)")
    ingested(lake, configured, "t")
    for n in range(2, 5):
        configured.run(f"insert into t values ({n})", "select pg_switch_wal()", "checkpoint")
    with pytest.raises(InvalidRequest, match="is lost"):
        ingested(lake, configured, "t")
    lake.ingest(configured.url, ["t"], "db").drop_slot()
    ingested(lake, configured, "t", copy_again=True)
    assert differences(lake, configured, "t") == []


def test_the_command(database, tmp_path) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1), (2)")
    common = [
        "ingest",
        database.url,
        "--tables",
        "public.t",
        "--into",
        "db",
        "--warehouse",
        str(tmp_path / "warehouse"),
    ]

    def printed(*more: str) -> str:
        done = CliRunner().invoke(lakelog, [*common, *more], obj=Process())
        assert done.exit_code == 0, done.output
        assert "hush" not in done.output
        return done.output

    assert "db.t: 2 rows copied" in printed("--once", "--option", "bucket=2")
    database.run("insert into t values (3)")
    assert "1 row to " in printed("--once", "--commit-interval", "100 ms")
    assert "db.t (public.t): at " in printed("--status")
    assert "dropped" in printed("--drop-slot")
    assert "does not exist" in printed("--drop-slot")
    assert database.slots() == []


@pytest.mark.parametrize("how", ["rolled back", "rolled back beside a log", "an older copy"])
def test_a_table_at_another_state_than_it_was_left_is_refused_until_it_is_copied_again(
    database, lake, tmp_path, how: str
) -> None:
    database.run("create table t (id int primary key, n int)", "insert into t select g, 0 from generate_series(1, 9) g")
    options = {"log-store.enabled": "true"} if "log" in how else {}
    list(lake.ingest(database.url, ["t"], "db", options=options).run(once=True))
    table = lake.table("db.t")
    good, place = table.latest_snapshot(), Path(table.logical.path)
    assert good is not None
    shutil.copytree(place, tmp_path / "copy")
    database.run("update t set n = 1 where id < 5")
    ingested(lake, database, "t")
    if how == "an older copy":
        shutil.rmtree(place)
        shutil.copytree(tmp_path / "copy", place)
    else:
        table.rollback_to(good.id)
    database.run("update t set n = 2 where id = 9")
    for _ in range(2):
        with pytest.raises(InvalidRequest, match=r"table db\.t .*--copy-again"):
            ingested(lake, database, "t")
    ingested(lake, database, "t", copy_again=True)
    database.run("update t set n = 3 where id = 8")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
