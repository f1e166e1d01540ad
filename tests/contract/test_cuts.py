"""Cuts of tables that ``lakelog ingest`` fills: transfers between accounts of four tables never change the sum."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog import Lake, connect
from lakelog.errors import NotFound
from source_database import SourceDatabase, ingested
from transfers import ACCOUNTS, TOTAL, Transfers, make_accounts, sum_of_files, sum_of_union

pytestmark = pytest.mark.postgres

TABLES = tuple(f"db.{name}" for name in ACCOUNTS)
LOG = {"log-store.enabled": "true"}
READS: dict[str, Callable[[Lake], int]] = {"files": sum_of_files, "union": sum_of_union}
KILLS = 8


def transferred(database: SourceDatabase, load: Transfers, count: int) -> None:
    with database.connect() as connection:
        for _ in range(count):
            load.transaction(connection)


@pytest.mark.parametrize("options", [{}, LOG], ids=["no log", "log"])
def test_a_run_ends_with_a_cut_of_all_that_it_has_read(database, lake, options) -> None:
    make_accounts(database)
    load = Transfers(1)
    for _ in range(3):
        transferred(database, load, 50)
        ingested(lake, database, *ACCOUNTS, options=options)
        cut = lake.cut(TABLES)
        newest = {name: lake.table(name).latest_snapshot() for name in TABLES}
        assert cut.tables == {name: found.id for name, found in newest.items() if found is not None}
        assert {name: read(lake) for name, read in READS.items()} == dict.fromkeys(READS, TOTAL)


def test_an_empty_table_and_one_without_a_key_are_in_the_cut(database, lake) -> None:
    database.run("create table a (id int primary key)", "create table b (v int)", "insert into a values (1)")
    database.run("alter table b replica identity full")
    ingested(lake, database, "a", "b")
    empty = lake.cut(["db.a", "db.b"])
    database.run("begin; insert into a values (2); insert into b values (2); commit")
    ingested(lake, database, "a", "b")
    full = lake.cut(["db.a", "db.b"])
    counts = [[lake.table(f"db.{name}").scan(options=cut.options).count() for name in "ab"] for cut in (empty, full)]
    assert counts == [[1, 0], [2, 1]]


def test_a_transaction_in_several_commits_is_whole_in_each_cut(database, lake) -> None:
    """An ALTER within a transaction makes several commits of it."""
    database.run("create table a (id int primary key)", "create table b (id int primary key)")
    ingested(lake, database, "a", "b")
    with database.connect() as connection, connection.transaction():
        connection.execute("insert into a values (1)")
        connection.execute("alter table a add column v int")
        connection.execute("insert into a values (2, 2)")
        connection.execute("insert into b values (1), (2)")
    ingested(lake, database, "a", "b")
    options = lake.cut(["db.a", "db.b"]).options
    assert [lake.table(name).scan(options=options).count() for name in ("db.a", "db.b")] == [2, 2]


def test_a_table_that_is_copied_again_joins_the_next_cut(database, lake) -> None:
    make_accounts(database)
    load = Transfers(2)
    ingested(lake, database, *ACCOUNTS)
    before = lake.cut(TABLES)
    database.run("alter table cash add column kind text default 'x'")
    transferred(database, load, 30)
    ingested(lake, database, *ACCOUNTS)
    assert lake.cut(TABLES).name != before.name
    assert sum_of_files(lake) == TOTAL
    ingested(lake, database, *ACCOUNTS, copy_again=True)
    assert sum_of_files(lake) == TOTAL


def test_a_table_that_another_run_has_left_behind_delays_the_cut(database, lake) -> None:
    """A run of some of the tables makes cuts of these only."""
    make_accounts(database)
    ingested(lake, database, *ACCOUNTS)
    before = lake.cut(TABLES)
    transferred(database, Transfers(3), 20)
    ingested(lake, database, *ACCOUNTS[:2])
    assert lake.cut(TABLES).name == before.name
    assert sum_of_files(lake) == TOTAL
    assert lake.cut(TABLES[:2]).name != before.name


def test_a_rolled_back_table_has_the_former_cut(database, lake) -> None:
    make_accounts(database)
    ingested(lake, database, *ACCOUNTS)
    transferred(database, Transfers(4), 20)
    ingested(lake, database, *ACCOUNTS)
    table = lake.table(TABLES[0])
    table.rollback_to(snapshot_id=table.logical.store.earliest_snapshot_id())
    assert sum_of_files(lake) == TOTAL


def test_nothing_of_the_cuts_is_left_after_the_slot(database, lake) -> None:
    make_accounts(database)
    ingested(lake, database, *ACCOUNTS)
    assert [c.name.startswith("cut-") for c in lake.table(TABLES[0]).logical.store.consumers.list()] == [True]
    assert lake.ingest(database.url, ACCOUNTS, "db").drop_slot()
    with pytest.raises(NotFound, match="has no cut"):
        lake.cut(TABLES)
    assert lake.table(TABLES[0]).logical.store.consumers.list() == []


class Reader:
    """Reads the sum again and again, in each way, until it is stopped."""

    def __init__(self, warehouse: Path) -> None:
        self._warehouse, self._stopped = warehouse, threading.Event()
        self.wrong: list[str] = []
        self.reads, self.cuts = 0, set[str]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(warehouse=str(self._warehouse)) as lake:
            while not self._stopped.is_set():
                try:
                    cut = lake.cut(TABLES)
                    found = {name: read(lake) for name, read in READS.items()}
                except NotFound as why:
                    if self.cuts:
                        self.wrong.append(str(why))
                    continue
                except Exception as why:
                    self.wrong.append(repr(why))
                    return
                self.cuts.add(cut.name)
                self.reads += len(found)
                self.wrong += [f"{name}: {total}" for name, total in found.items() if total != TOTAL]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, LOG], ids=["no log", "log"])
def test_kills_never_change_the_sum(database, lake, tmp_path, options) -> None:
    make_accounts(database)
    load, rng, stopped = Transfers(5), random.Random(5), threading.Event()

    def writing() -> None:
        with database.connect() as connection:
            while not stopped.wait(0.02):
                load.transaction(connection)

    pairs = [f"{key}={value}" for key, value in {**options, "commit.interval": "100 ms"}.items()]
    job = [sys.executable, str(Path(__file__).with_name("ingest_job.py")), str(tmp_path / "warehouse")]
    writer, seen = threading.Thread(target=writing), set[str]()
    writer.start()
    ingested(lake, database, *ACCOUNTS, options={**options, "commit.interval": "100 ms"})
    try:
        with Reader(tmp_path / "warehouse") as reader, (tmp_path / "job.log").open("ab") as errors:
            for _ in range(KILLS):
                command = [*job, database.url, ",".join(ACCOUNTS), *pairs]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
                    assert process.stdout is not None
                    for _ in range(rng.randint(20, 150)):
                        line = process.stdout.readline()
                        assert line, (tmp_path / "job.log").read_text()[-3000:]
                    seen.add(line.decode().strip())
                    process.send_signal(signal.SIGKILL)
    finally:
        stopped.set()
        writer.join()
    assert (reader.wrong, reader.reads > KILLS) == ([], True)
    ingested(lake, database, *ACCOUNTS)
    assert sum_of_files(lake) == TOTAL
    assert len(reader.cuts) > 1, seen
    for name in ACCOUNTS:
        with database.connect() as connection:
            wanted = connection.execute(f"select sum(balance) from {name}").fetchone()
        assert wanted is not None
        table = lake.table(f"db.{name}").scan(columns=["balance"], options=lake.cut(TABLES).options).to_arrow()
        assert sum(table.column("balance").to_pylist()) == wanted[0]
