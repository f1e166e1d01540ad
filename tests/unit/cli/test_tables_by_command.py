"""The commands that read, write and tell of a real table, each by its machine-readable form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import lakelog
from lakelog.cli.main import lakelog as command
from lakelog.cli.maintenance import table as call_module
from lakelog.errors import AlreadyExists, InvalidRequest, InvalidSchema, NotFound
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.sql.procedures import PROCEDURES
from lakelog.table.system import SYSTEM_TABLES

JSON_LOG = "'log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json'"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """db.t with three rows in three snapshots, and db.empty."""
    place = tmp_path / "warehouse"
    lake = lakelog.connect(warehouse=str(place))
    lake.sql(
        "create database db; create table db.t (id int, name string, primary key (id));"
        "create table db.empty (id int, primary key (id))"
    )
    for number in range(3):
        lake.table("db.t").write(pa.table({"id": pa.array([number], pa.int32()), "name": [f"n{number}"]}))
    return place


def run(warehouse: Path, *arguments: str) -> Result:
    done = CliRunner().invoke(command, [*arguments, "--warehouse", str(warehouse)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def rows(warehouse: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run(warehouse, *arguments, "--format", "jsonl")
    return [json.loads(line) for line in done.stdout.splitlines()]


def failure(warehouse: Path, *arguments: str) -> BaseException:
    done = CliRunner().invoke(command, [*arguments, "--warehouse", str(warehouse)])
    assert done.exit_code and done.exception is not None
    return done.exception


# head


def test_head_prints_rows_without_spark(warehouse: Path) -> None:
    assert len(rows(warehouse, "head", "db.t", "-n", "2")) == 2
    chosen = rows(warehouse, "head", "db.t", "--columns", "name", "--where", "id >= 1")
    assert sorted(row["name"] for row in chosen) == ["n1", "n2"]
    assert rows(warehouse, "head", "db.t", "--snapshot", "1") == [{"id": 0, "name": "n0"}]


def test_head_of_an_empty_table_has_its_columns(warehouse: Path) -> None:
    assert run(warehouse, "head", "db.empty", "--format", "csv").stdout == "id\n"


def test_head_with_fresh_also_has_what_only_the_log_has(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(f"create database db; create table db.t (id int) tblproperties ({JSON_LOG})")
    appender = appender_for(lake.table("db.t").logical.log)
    value = pa.array([b'{"before":null,"after":{"id":7},"op":"c"}'], pa.large_binary())
    appender.append(0, Records(pa.nulls(1, pa.large_binary()), value, UNOWNED_HEADER))
    appender.flush()
    lake.sql("alter table db.t set tblproperties ('emit.mode' = 'log')")
    assert rows(tmp_path, "head", "db.t") == []
    assert rows(tmp_path, "head", "db.t", "--fresh") == [{"id": 7}]


# sql, tail, tables and describe


@pytest.mark.parametrize("how", ["argument", "stdin", "file"])
def test_sql_prints_every_result_that_has_rows_and_nothing_else(warehouse: Path, tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text("create database d2; show tables in db; describe db.empty")
    given = {"argument": [script.read_text()], "stdin": [], "file": ["-f", str(script)]}[how]
    words = ["sql", *given, "--format", "jsonl", "--warehouse", str(warehouse)]
    done = CliRunner().invoke(command, words, input=script.read_text() if how == "stdin" else None)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.get("tableName") or row["col_name"] for row in found] == ["empty", "t", "id"]


def test_tail_tables_and_describe_print_rows(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(f"create table db.t (id int, name string comment 'a name') tblproperties ({JSON_LOG}, 'bucket' = '1')")
    lake.table("db.t").write(pa.table({"id": pa.array([0, 1, 2], pa.int32()), "name": ["a", "b", "c"]}))
    told = rows(tmp_path, "tail", "db.t", "--start", "earliest", "--stop", "latest", "--limit", "2")
    assert [(row["id"], row["_row_kind"]) for row in told] == [(0, "+I"), (1, "+I")]
    lake.sql("create table other.u (id int)")
    assert run(tmp_path, "tables", "--format", "csv").stdout == "database,table\ndb,t\nother,u\n"
    assert run(tmp_path, "tables", "other", "--format", "csv").stdout == "database,table\nother,u\n"
    described = run(tmp_path, "describe", "db.t", "--format", "csv").stdout
    assert described == "name,type,comment\nid,int,\nname,string,a name\n"
    assert "location" in run(tmp_path, "describe", "db.t", "--extended", "--format", "csv").stdout


# show


def test_show_lists_what_there_is_to_show(warehouse: Path) -> None:
    listed = rows(warehouse, "show", "db.t")
    assert {row["what"] for row in listed} == {"history", "lookups", *SYSTEM_TABLES}
    assert all(row["shows"] for row in listed)


@pytest.mark.parametrize("what", ["history", "lookups", *(name for name in SYSTEM_TABLES if name != "view")])
def test_everything_that_is_listed_can_be_shown(warehouse: Path, what: str) -> None:
    run(warehouse, "show", "db.t", what, "--format", "jsonl")


def test_the_sources_of_a_view_are_shown_for_a_view_only(warehouse: Path) -> None:
    with lakelog.connect(str(warehouse)) as lake:
        lake.sql("create materialized view if not exists views.v as select id from db.t")
    (row,) = rows(warehouse, "show", "views.v", "view")
    assert (row["source"], row["state"]) == ("db.t", "current")
    assert "db.t is no materialized view" in str(failure(warehouse, "show", "db.t", "view"))


def test_show_takes_columns_a_condition_and_a_limit(warehouse: Path) -> None:
    found = rows(warehouse, "show", "db.t", "snapshots", "--columns", "snapshot_id", "--where", "snapshot_id > 1")
    assert found == [{"snapshot_id": 2}, {"snapshot_id": 3}]
    assert rows(warehouse, "show", "db.t", "history", "--columns", "version", "--limit", "1") == [{"version": 3}]
    wrong = failure(warehouse, "show", "db.t", "history", "--columns", "nothing")
    assert isinstance(wrong, InvalidRequest) and "no column 'nothing'; columns: version" in str(wrong)


def test_show_of_an_unknown_thing_names_the_nearest(warehouse: Path) -> None:
    wrong = failure(warehouse, "show", "db.t", "snapshot")
    assert isinstance(wrong, NotFound) and "did you mean 'snapshots'" in str(wrong)


# call


def test_call_runs_a_procedure_as_sql_does(warehouse: Path) -> None:
    run(warehouse, "call", "create_tag", "db.t", "tag=it's one", "snapshot=2", "time_retained=1 d")
    (tag,) = rows(warehouse, "show", "db.t", "tags")
    assert (tag["tag_name"], tag["snapshot_id"]) == ("it's one", 2)
    run(warehouse, "call", "sys.delete_tag", "db.t", "tag=it's one")
    assert rows(warehouse, "show", "db.t", "tags") == []
    assert run(warehouse, "call", "remove_orphan_files", "db.t", "dry_run=true").exit_code == 0


def test_call_lists_every_procedure_with_its_arguments(warehouse: Path) -> None:
    listed = {row["procedure"]: row["usage"] for row in rows(warehouse, "call")}
    assert set(listed) == set(PROCEDURES)
    assert listed["create_tag"] == "lakelog call create_tag TABLE tag=… [snapshot=…] [time_retained=…]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create_tg", "db.t"], "unknown procedure 'create_tg', did you mean 'create_tag'"),
        (["create_tag"], "the table is missing: lakelog call create_tag TABLE tag=…"),
        (["create_tag", "db.t", "v1"], "'v1' is not KEY=VALUE: lakelog call create_tag"),
        (["create_tag", "db.t", "x) --=v1"], "is not KEY=VALUE"),
        (["create_tag", "db.t", "tga=v1"], "unknown argument 'tga', did you mean 'tag'"),
    ],
)
def test_a_wrong_call_says_how_it_is_written(warehouse: Path, arguments: list[str], message: str) -> None:
    assert message in str(failure(warehouse, "call", *arguments))


def test_a_value_cannot_become_another_statement() -> None:
    made = call_module.statement_of("create_tag", "db.t'); drop table db.t; --", ("tag=\\'); drop table db.t; --",))
    assert made == (
        "CALL sys.create_tag(table => 'db.t\\'); drop table db.t; --', tag => '\\\\\\'); drop table db.t; --')"
    )


# load and export


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "jsonl"])
def test_what_is_exported_can_be_loaded_again(warehouse: Path, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"rows.{ending}"
    assert rows(warehouse, "export", "db.t", str(file)) == [{"table": "db.t", "file": str(file), "rows": 3}]
    lakelog.connect(warehouse=str(warehouse)).sql("create table db.copy (id int, name string, primary key (id))")
    assert rows(warehouse, "load", "db.copy", str(file)) == [{"table": "db.copy", "rows": 3, "snapshot": 1}]
    assert rows(warehouse, "head", "db.copy") == rows(warehouse, "head", "db.t")
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_export_of_an_empty_table_and_of_the_past(warehouse: Path, tmp_path: Path) -> None:
    run(warehouse, "export", "db.empty", str(tmp_path / "empty.parquet"))
    assert pq.read_table(tmp_path / "empty.parquet").column_names == ["id"]
    run(warehouse, "export", "db.t", str(tmp_path / "past.csv"), "--snapshot", "1")
    assert (tmp_path / "past.csv").read_text() == "id,name\n0,n0\n"


def test_load_takes_changes_and_replaces(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "changes.jsonl").write_text('{"id":1,"name":"n1","_row_kind":"-D"}\n')
    run(warehouse, "load", "db.t", str(tmp_path / "changes.jsonl"))
    assert [row["id"] for row in rows(warehouse, "head", "db.t")] == [0, 2]
    (tmp_path / "all.csv").write_text("id,name\n9,nine\n")
    run(warehouse, "load", "db.t", str(tmp_path / "all.csv"), "--overwrite")
    assert rows(warehouse, "head", "db.t") == [{"id": 9, "name": "nine"}]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_load_creates_a_table_for_a_file(warehouse: Path, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"all.{ending}"
    run(warehouse, "export", "db.t", str(file))
    run(warehouse, "load", "db.made", str(file), "--create", "--primary-key", "id")
    assert rows(warehouse, "head", "db.made") == rows(warehouse, "head", "db.t")
    assert lakelog.connect(str(warehouse)).table("db.made").primary_keys == ("id",)
    with pytest.raises(AlreadyExists):
        raise failure(warehouse, "load", "db.made", str(file), "--create")


def test_a_table_that_cannot_be_filled_is_not_created(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("id,name\n7,seven\n")
    (tmp_path / "bad.csv").write_text("id,name\nseven,7\n")
    files = [str(tmp_path / "good.csv"), str(tmp_path / "bad.csv")]
    assert isinstance(failure(warehouse, "load", "db.made", *files, "--create"), InvalidSchema)
    assert "db.made" not in run(warehouse, "tables").stdout
    assert "add --create" in str(failure(warehouse, "load", "db.t", files[0], "--primary-key", "id"))


def test_a_file_that_does_not_fit_commits_nothing(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("id,name\n7,seven\n")
    (tmp_path / "bad.csv").write_text("id,name\nseven,7\n")
    wrong = failure(warehouse, "load", "db.t", str(tmp_path / "good.csv"), str(tmp_path / "bad.csv"))
    assert isinstance(wrong, InvalidSchema) and "bad.csv' does not fit the table" in str(wrong)
    assert len(rows(warehouse, "head", "db.t")) == 3


@pytest.mark.parametrize(
    ("file", "message"),
    [("rows.xlsx", "extension '.xlsx' is not a known format: use one of .parquet"), ("none.csv", "does not exist")],
)
def test_an_unreadable_file_is_reported(warehouse: Path, tmp_path: Path, file: str, message: str) -> None:
    assert message in str(failure(warehouse, "load", "db.t", str(tmp_path / file)))


def test_a_file_that_cannot_be_written_leaves_nothing(warehouse: Path, tmp_path: Path) -> None:
    assert "not a known format" in str(failure(warehouse, "export", "db.t", str(tmp_path / "rows.xlsx")))
    wrong = failure(warehouse, "export", "db.t", str(tmp_path / "none" / "rows.csv"))
    assert isinstance(wrong, InvalidRequest) and "cannot write" in str(wrong)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse"]


# facts


def test_a_result_is_printed_as_one_json_object(warehouse: Path) -> None:
    (done,) = rows(warehouse, "compact", "db.t")
    assert (done["table"], done["snapshot"], done["files_before"], done["files_after"]) == ("db.t", 4, 3, 1)
    (nothing,) = rows(warehouse, "compact", "db.t")
    assert (nothing["snapshot"], nothing["buckets"]) == (None, 0)
    assert rows(warehouse, "expire", "db.t", "--retain-max", "1") == [
        {"table": "db.t", "removed": 3, "first": 1, "last": 3}
    ]
    csv = run(warehouse, "expire", "db.t", "--format", "csv").stdout
    assert csv == "table,removed,first,last\ndb.t,0,,\n"


def test_follow_prints_each_snapshot_as_an_object(tmp_path: Path) -> None:
    lake = lakelog.connect(warehouse=str(tmp_path))
    lake.sql(f"create database db; create table db.t (id int) tblproperties ({JSON_LOG})")
    appender = appender_for(lake.table("db.t").logical.log)
    value = pa.array([b'{"before":null,"after":{"id":7},"op":"c"}'], pa.large_binary())
    appender.append(0, Records(pa.nulls(1, pa.large_binary()), value, UNOWNED_HEADER))
    appender.flush()
    (step,) = rows(tmp_path, "follow", "db.t", "--stop", "latest")
    assert (step["table"], step["snapshot"], step["rows"]) == ("db.t", 1, 1)
