from __future__ import annotations

import pyarrow as pa
from click.testing import CliRunner

import lakelog
from lakelog.cli.main import lakelog as command
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.table.log.register import register_writer
from lakelog.table.model.log_state import newest_state


def test_compact_and_expire(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql("create database db; create table db.t (id int, name string, primary key (id))")
    for number in range(3):
        lake.table("db.t").write(pa.table({"id": pa.array([number], pa.int32()), "name": ["a"]}))

    def answer(*arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, "--warehouse", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.output.strip()

    assert answer("compact", "db.t").startswith("snapshot 4: 1 bucket, 3 files (")
    assert answer("compact", "db.t") == "nothing to compact"
    assert answer("expire", "db.t", "--retain-max", "1") == "3 snapshots removed"
    assert answer("expire", "db.t") == "0 snapshots removed"


def test_follow_makes_files_of_what_is_in_the_log_only(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(
        "create database db; create table db.t (id int) using lakelog tblproperties ('log-store.enabled' = 'true', "
        "'log-store.data-format' = 'debezium-json')"
    )
    table = lake.table("db.t").logical
    value = pa.array([b'{"before":null,"after":{"id":7},"op":"c"}'], pa.large_binary())
    appender = appender_for(table.log)
    appender.append(0, Records(pa.nulls(1, pa.large_binary()), value, UNOWNED_HEADER))
    appender.flush()
    done = CliRunner().invoke(command, ["follow", "db.t", "--stop", "latest", "--warehouse", str(tmp_path)])
    assert done.output == "snapshot 1: 1 row\n", done.exception
    assert lake.table("db.t").scan().to_arrow().to_pylist() == [{"id": 7}]


def test_a_writer_is_ended(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(
        "create database db; create table db.t (id int) using lakelog tblproperties ('log-store.enabled' = 'true')"
    )
    table = lake.table("db.t").logical
    register_writer(table, "query-1")
    where = ["--warehouse", str(tmp_path)]
    done = CliRunner().invoke(command, ["log", "db.t", "--end-writer", "query-1", *where])
    assert done.exit_code == 0 and "query-1" in done.output, done.output
    assert newest_state(table.store)[1].writers["query-1"].ended
    wrong = CliRunner().invoke(command, ["log", "db.t", "--end-writer", "query-2", *where])
    assert wrong.exit_code and "its writers: query-1" in str(wrong.exception)


def test_a_table_is_backed_up_and_restored(tmp_path) -> None:
    lake, backup = lakelog.connect(warehouse=str(tmp_path / "w")), str(tmp_path / "backup")
    lake.create_table("db.t", {"id": "int"}, primary_key="id", options={"log-store.enabled": "true"})
    lake.write(pa.table({"id": pa.array([1], pa.int32())}), "db.t")

    def answer(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(command, [*arguments, "--warehouse", str(tmp_path / "w")])
        assert done.exit_code == code, done.output
        return done.output.strip() or str(done.exception)

    assert answer("backup", "db.t", "--to", backup).startswith("point 1: snapshot 1, ")
    assert answer("backup", "db.t", "--to", backup, "--keep", "1").startswith("point 2: snapshot 1, 0 files copied")
    lake.write(pa.table({"id": pa.array([2], pa.int32())}), "db.t")
    assert answer("restore", backup, "--format", "csv").splitlines()[0].startswith("point,snapshot,committed")
    assert "db.r has the rows of snapshot 1" in answer("restore", backup, "db.r", "--check")
    assert lake.table("db.r").scan().count() == 1
    answer("restore", backup, "db.t", "--in-place")
    assert lake.table("db.t").scan().count() == 1
    assert "is not a backup" in answer("restore", str(tmp_path / "w"), "db.x", code=1)


def test_the_versions_that_know_a_table_are_listed(tmp_path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.create_table("db.plain", {"id": "int"})
    lake.create_table("db.logged", {"id": "int"}, primary_key="id", options={"log-store.enabled": "true"})
    lake.create_table("db.padded", {"id": "char(3)"}, primary_key="id")
    done = CliRunner().invoke(command, ["upgrade", "--check", "--format", "csv", "--warehouse", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = {line.split(",")[0]: line for line in done.output.splitlines()}
    assert rows["db.plain"] == "db.plain,-,0.1.0,0.1.0,nothing"
    assert rows["db.padded"] == "db.padded,padded-keys,0.2.0,0.2.0,nothing"
    assert rows["db.logged"].startswith("db.logged,embedded log,0.2.0,0.2.0,")
    wrong = CliRunner().invoke(command, ["upgrade", "--warehouse", str(tmp_path)])
    assert "--check" in str(wrong.exception)
