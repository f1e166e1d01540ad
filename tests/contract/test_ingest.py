"""``lakelog ingest`` from a real PostgreSQL: tables equal the database, whatever is killed, and slots are not left."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidSchema
from source_database import NAMES, TABLES, RandomLoad, SourceDatabase, differences, ingested

pytestmark = pytest.mark.postgres

LOGS: dict[str, dict[str, str]] = {
    "no log": {},
    "embedded": {"log-store.enabled": "true"},
    "files": {"log-store.enabled": "true", "log-store.type": "files"},
}
KILLS = 6


EVERY_TYPE = """
create type mood as enum ('sad', 'ok');
create domain cents as numeric(12, 2);
create table t (
    id int primary key, s smallint, b bigint, n numeric(10, 3), free numeric, huge numeric(60, 2), f real,
    d double precision, ok boolean, bytes bytea, day date, "at" timestamp, tz timestamptz, clock time(3),
    fine time, span interval, j json, jb jsonb, u uuid, r int4range, e mood, c cents, ip inet,
    ch char(4), vc varchar(9), name text, ints int[], texts text[], nums numeric(6, 2)[], days date[], moods mood[],
    "Odd ""name" text
);
insert into t (id) values (1);
insert into t values (
    2, -3, 9007199254740993, -1.5, 1.50, 12345678901234567890123456789012345678901234567890.12, 1.5, 1e-300, true,
    '\\x00ff', '0099-12-31', '2024-02-29 23:59:59.123456', '2024-02-29 23:59:59.123456+05:30', '10:11:12.123',
    '24:00:00', '1 mon 2 days', '{"a": 1,  "b": null}', '{"b": 2, "a": "ü"}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    '[1,5)', 'ok', 12.34, '10.0.0.0/8', 'ab', 'x', E'two\\nlines, "quoted" \\\\ \\t', '{1,NULL,-3}',
    array['a,b', 'q"x', 'NULL', null, '', 'back\\slash', '{}', ' s'], '{1.25,NULL}', '{2024-01-01}', '{sad,NULL}', ''
);
insert into t (id, name, ints, d, f) values (3, '', '{}', 'NaN', '-Infinity');
"""


@pytest.mark.parametrize("log", ["no log", "embedded"])
def test_every_type_is_the_same_by_snapshot_and_by_changes(database, lake, log) -> None:
    database.run(*(part for part in EVERY_TYPE.split(";\n") if part.strip()))
    assert ingested(lake, database, "t", options=LOGS[log]) == 3
    assert differences(lake, database, "t") == []
    copied = sorted(map(repr, lake.table("db.t").scan().to_arrow().to_pylist()))
    database.run("create table kept as table t", "truncate t", "insert into t select * from kept")
    ingested(lake, database, "t")
    assert sorted(map(repr, lake.table("db.t").scan().to_arrow().to_pylist())) == copied
    types = {f.name: str(f.type) for f in lake.table("db.t").schema}
    assert types["n"] == "decimal128(10, 3)" and types["free"] == types["huge"] == types["jb"] == "string"
    assert types["c"] == "decimal128(12, 2)" and types["moods"].startswith("list<") and types["clock"] == "time32[ms]"


@pytest.mark.parametrize("log", LOGS)
def test_changes_follow_the_snapshot_without_a_gap(database, lake, log) -> None:
    database.run(*TABLES)
    load, stopped = RandomLoad(1, alters=0), threading.Event()

    def writing() -> None:
        with database.connect() as connection:
            while not stopped.is_set():
                load.transaction(connection)

    writer = threading.Thread(target=writing)
    writer.start()
    try:
        for _ in range(3):
            ingested(lake, database, *NAMES, options=LOGS[log])
    finally:
        stopped.set()
        writer.join()
    ingested(lake, database, *NAMES)
    for name in NAMES:
        assert differences(lake, database, name) == []


@pytest.mark.deep
@pytest.mark.parametrize("log", LOGS)
def test_random_transactions_end_with_the_same_tables(database, lake, log, depth) -> None:
    database.run(*TABLES)
    ingested(lake, database, *NAMES, options=LOGS[log])
    for seed in depth.seeds(10):
        load = RandomLoad(seed)
        load.next_id, load.columns = 1 + 1000 * seed, 100 * seed
        with database.connect() as connection:
            for _ in range(60):
                load.transaction(connection)
        ingested(lake, database, *NAMES)
        for name in NAMES:
            assert differences(lake, database, name) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_kills_lose_nothing_and_repeat_nothing(database, lake, tmp_path, log) -> None:
    database.run(*TABLES)
    load, rng, stopped = RandomLoad(7, alters=0.004), random.Random(7), threading.Event()
    with database.connect() as connection:
        for _ in range(100):
            load.transaction(connection)

    def writing() -> None:
        with database.connect() as connection:
            while not stopped.is_set():
                load.transaction(connection)
                stopped.wait(0.03)

    writer, log_file = threading.Thread(target=writing), tmp_path / "job.log"
    writer.start()
    seen: set[str] = set()
    try:
        for _ in range(KILLS):
            with log_file.open("ab") as errors, started(tmp_path, database, LOGS[log], errors) as job:
                assert job.stdout is not None
                for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 21, 34])):
                    line = job.stdout.readline()
                    assert line, log_file.read_text()[-3000:]
                seen.add(line.decode().strip())
                job.send_signal(signal.SIGKILL)
    finally:
        stopped.set()
        writer.join()
    ingested(lake, database, *NAMES)
    for name in NAMES:
        assert differences(lake, database, name) == [], seen
    assert len(database.slots()) == 1
    assert lake.ingest(database.url, NAMES, "db").drop_slot()
    assert database.slots() == []


def started(
    tmp_path: Path, database: SourceDatabase, options: Mapping[str, str], errors: Any
) -> subprocess.Popen[bytes]:
    pairs = [f"{key}={value}" for key, value in options.items()]
    job = [sys.executable, str(Path(__file__).with_name("ingest_job.py")), str(tmp_path / "warehouse")]
    return subprocess.Popen([*job, database.url, ",".join(NAMES), *pairs], stdout=subprocess.PIPE, stderr=errors)


def test_large_values_that_an_update_leaves_are_kept(database, lake) -> None:
    large = "(select string_agg(md5(g::text), '') from generate_series(1, 1000) g)"
    database.run("create table t (a int, b text, id int, big text, primary key (id, a))")
    database.run(f"insert into t select 1, 'x', g, {large} from generate_series(1, 3) g")
    ingested(lake, database, "t")
    database.run(
        "update t set b = 'y' where id = 1",  # the value is in the table
        f"insert into t values (1, 'n', 4, {large})",
        "update t set b = 'z' where id = 4",  # in the open epoch
        "update t set id = 5 where id = 2",  # under the former key
        "update t set b = 'w' where id = 5",
        "begin; update t set b = 'q' where id = 3; delete from t where id = 3; commit",
    )
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


def test_columns_follow_the_source(database, lake) -> None:
    database.run("create table t (id int primary key, v int, w text)", "insert into t values (1, 1, 'a'), (2, 2, 'b')")
    ingested(lake, database, "t")
    database.run("alter table t add column x int", "update t set x = 5 where id = 1")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    database.run("alter table t add column y text default 'all'", "update t set x = 6 where id = 2")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    database.run("alter table t alter column v type bigint using v * 3000000000", "insert into t values (3, 7, 'c')")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    database.run("alter table t drop column w", "alter table t rename column x to z", "insert into t values (4, 8)")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []
    assert {row["w"] for row in lake.table("db.t").scan(filter="id = 4").to_arrow().to_pylist()} == {None}


def test_an_alter_within_a_transaction_is_followed(database, lake) -> None:
    database.run("create table t (id int primary key)")
    ingested(lake, database, "t")
    database.run("begin; insert into t values (1); alter table t add column v int; insert into t values (2, 2); commit")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


def test_a_type_that_does_not_widen_stops_with_one_sentence(database, lake) -> None:
    database.run("create table t (id int primary key, v text)")
    ingested(lake, database, "t")
    database.run("alter table t alter column v type int using 1", "insert into t values (1, 1)")
    with pytest.raises(InvalidSchema, match=r"column 'v' of public\.t is now int32.*drop the table"):
        ingested(lake, database, "t")


@pytest.mark.parametrize("value", ["'infinity'", "'4714-11-24 BC'"])
def test_a_value_that_no_column_holds_is_named(database, lake, value) -> None:
    database.run("create table t (id int primary key, d date)")
    ingested(lake, database, "t")
    database.run(f"insert into t values (1, {value})")
    with pytest.raises(InvalidSchema, match="column 'd' has the value"):
        ingested(lake, database, "t")
    assert lake.table("db.t").scan().count() == 0


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("log", ["no log", "embedded"])
def test_truncate_is_followed(database, lake, key, log) -> None:
    database.run(
        f"create table t (id int {'primary key' if key else ''})",
        *([] if key else ["alter table t replica identity full"]),
        "insert into t values (1), (2)",
    )
    ingested(lake, database, "t", options=LOGS[log])
    database.run("begin; insert into t values (3); truncate t; insert into t values (4); commit")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


def test_a_table_without_a_key_is_copied_again_after_a_delete(database, lake) -> None:
    database.run("create table t (v text)", "alter table t replica identity full", "insert into t values ('a'), ('a')")
    ingested(lake, database, "t")
    database.run("insert into t values ('b')", "update t set v = 'c' where v = 'b'", "insert into t values ('d')")
    ingested(lake, database, "t")
    assert differences(lake, database, "t") == []


def test_a_log_of_whole_changes_has_both_rows_of_an_update(database, lake) -> None:
    whole = {**LOGS["embedded"], "log.changelog-mode": "all"}
    database.run("create table t (id int primary key, v int)", "alter table t replica identity full")
    ingested(lake, database, "t", options=whole)
    database.run("insert into t values (1, 1)", "update t set v = 2", "delete from t")
    ingested(lake, database, "t")
    rows = [row for part in lake.table("db.t").tail("earliest", stop="latest") for row in part.to_pylist()]
    assert [(row["_row_kind"], row["v"]) for row in rows] == [("+I", 1), ("-U", 1), ("+U", 2), ("-D", 2)]


def test_a_large_transaction_is_one_commit(database, lake) -> None:
    database.run("create table t (id int primary key, v text)")
    ingested(lake, database, "t")
    before = lake.table("db.t").latest_snapshot()
    database.run("insert into t select g, repeat('x', 100) from generate_series(1, 100000) g")
    ingested(lake, database, "t")
    after = lake.table("db.t").latest_snapshot()
    assert lake.table("db.t").scan().count() == 100_000
    assert after.id - (0 if before is None else before.id) == 1


def test_a_table_is_added_to_a_running_ingest(database, lake) -> None:
    database.run("create table a (id int primary key)", "create table b (id int primary key)")
    database.run("insert into a values (1)", "insert into b values (1)")
    ingested(lake, database, "a")
    database.run("insert into a values (2)", "insert into b values (2)")
    ingested(lake, database, "a", "b")
    database.run("insert into b values (3)")
    ingested(lake, database, "a", "b")
    assert differences(lake, database, "a") == differences(lake, database, "b") == []
    assert len(database.slots()) == 1


def test_the_server_may_restart(postgres_server, database, lake) -> None:
    database.run(*TABLES)
    stop, load, phases = threading.Event(), RandomLoad(3), list[str]()
    failed: list[BaseException] = []

    def ingesting() -> None:
        try:
            for progress in lake.ingest(database.url, NAMES, "db", interval_s=0.05).run(stop):
                phases.append(progress.phase)
        except BaseException as why:
            failed.append(why)

    thread = threading.Thread(target=ingesting)
    thread.start()
    try:
        for _ in range(2):
            with database.connect() as connection:
                for _ in range(50):
                    load.transaction(connection)
            postgres_server.kill()
            postgres_server.start()
    finally:
        stop.set()
        thread.join(120)
    assert failed == []
    ingested(lake, database, *NAMES)
    for name in NAMES:
        assert differences(lake, database, name) == []
