"""Cuts in SQL: all tables of a statement are read at the same one."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidOption, NotFound, UnsupportedStatement
from lakelog.table.cuts.records import CutRecords
from lakelog.table.cuts.writer import CutTable, record_cut
from source_database import SourceDatabase
from transfers import ACCOUNTS, TOTAL, Transfers, make_accounts, sum_of_sql

NAMES = ("db.a", "db.b")
NEWEST = "/*+ OPTIONS('read.cut'='newest') */"
JOIN = f"SELECT a.v AS a, b.v AS b FROM db.a {NEWEST} a JOIN db.b {NEWEST} b ON a.id = b.id"


@pytest.fixture
def tables(lake):
    for name in NAMES:
        lake.create_table(name, {"id": "int", "v": "int"}, primary_key="id")
    return lake


def write(lake, value: int, *names: str) -> None:
    for name in names or NAMES:
        lake.write(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([value], pa.int32())}), name)


def cut(lake, value: int) -> str:
    write(lake, value)
    tables = [lake.table(name) for name in NAMES]
    made = record_cut("g", [CutTable(t.logical, t.latest_snapshot()) for t in tables], str(value))
    assert made is not None
    return made.name


def rows(lake, text: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in lake.sql(text).collect()]


def test_the_tables_of_a_statement_are_read_at_one_cut(tables) -> None:
    first = cut(tables, 1)
    cut(tables, 2)
    write(tables, 3, "db.a")
    assert rows(tables, JOIN) == [(2, 2)]
    assert rows(tables, JOIN.replace("newest", first)) == [(1, 1)]
    assert rows(tables, f"SELECT v FROM db.a {NEWEST} UNION ALL SELECT v FROM db.a") == [(2,), (3,)]
    assert rows(tables, f"SELECT count(*) FROM db.a {NEWEST} WHERE v = 2") == [(1,)]
    tables.sql(f"CREATE TABLE db.both USING lakelog AS {JOIN}")
    assert rows(tables, "SELECT * FROM db.both") == [(2, 2)]
    frame = tables.spark.read.format("lakelog").options(**tables.cut(NAMES).options).load("db.a")
    assert [row.v for row in frame.collect()] == [2]


def copy_of(lake, name: str, number: int) -> Path:
    """The file of a cut in one table."""
    return Path(CutRecords.of(lake.table(name).logical.store).directory) / f"g-{number:019}"


def test_a_cut_that_only_one_of_the_tables_has_is_not_read(tables) -> None:
    cut(tables, 1)
    cut(tables, 2)
    copy_of(tables, "db.b", 2).unlink()  # as a crash between the two leaves it
    assert rows(tables, f"SELECT v FROM db.a {NEWEST}") == [(2,)]
    assert rows(tables, JOIN) == [(1, 1)]
    copy_of(tables, "db.a", 1).unlink()
    with pytest.raises(NotFound, match=r"no cut in common \(db\.a: g; db\.b: g\)"):
        rows(tables, JOIN)
    cut(tables, 3)
    write(tables, 4)
    assert rows(tables, JOIN) == [(3, 3)]


def test_what_a_cut_cannot_be_is_refused(tables) -> None:
    cut(tables, 1)
    with pytest.raises(UnsupportedStatement, match=r"'read\.cut' reads files"):
        tables.sql("SELECT v FROM db.a /*+ OPTIONS('read.cut'='newest', 'read.mode'='log') */")
    with pytest.raises(UnsupportedStatement, match="a view would keep the cut"):
        tables.sql("CREATE TEMPORARY VIEW both AS " + JOIN)
    with pytest.raises(InvalidOption, match="both name a point in time"):
        tables.sql(f"SELECT v FROM db.a {NEWEST} VERSION AS OF 1")
    with pytest.raises(InvalidOption, match="one moment"):
        tables.sql("SELECT v FROM db.a /*+ OPTIONS('read.cut'='newest', 'incremental-between'='0,1') */")


@pytest.mark.postgres
def test_every_statement_finds_the_sum_of_the_transfers(lake, postgres_server) -> None:
    database, stopped, load = SourceDatabase(postgres_server), threading.Event(), Transfers(3)
    make_accounts(database)
    ingest = lake.ingest(database.url, ACCOUNTS, "db", interval_s=0.1)

    def ingesting() -> None:
        for _ in ingest.run(stopped):
            pass

    def transferring() -> None:
        with database.connect() as connection:
            while not stopped.wait(0.01):
                load.transaction(connection)

    for _ in ingest.run(once=True):
        pass
    threads = [threading.Thread(target=work) for work in (ingesting, transferring)]
    for thread in threads:
        thread.start()
    seen, sums = set(), []
    try:
        while len(seen) < 8:
            sums.append(sum_of_sql(lake))
            seen.add(lake.cut([f"db.{name}" for name in ACCOUNTS]).name)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    assert set(sums) == {TOTAL}
    assert ingest.drop_slot()
