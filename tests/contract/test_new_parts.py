"""A merge engine, log system, statement or procedure that another package registers works like lakelog's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete

import lakelog
from lakelog.cli.main import lakelog as command_line
from lakelog.errors import InvalidOption, UnsupportedFeature, UnsupportedStatement
from lakelog.lake.table import Table
from lakelog.logstore import client_properties, log_system_at
from lakelog.logstore.factory import FILE, VALUE
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.options.parts import LOG_SYSTEMS, MERGE_ENGINES
from lakelog.service.terminal import Privilege, Terminal, TerminalConfig
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.statements import STATEMENTS
from lakelog.table.open import open_catalog
from new_parts import installed
from terminals import done, rows, run


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[str]:
    with installed(tmp_path / "site"):
        yield str(tmp_path / "warehouse")


def make(warehouse: str, options: str, name: str = "t") -> Table:
    lake = lakelog.connect(warehouse=warehouse)
    lake.sql(
        f"create table db.{name} (id int, v int, name string, primary key (id)) using lakelog "
        f"tblproperties ('bucket' = '1', {options})"
    )
    return lake.table(f"db.{name}")


def write(table: Table, *rows: tuple[int, int | None, str | None]) -> None:
    names = ("id", "v", "name")
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), _TYPES, strict=True)]
    table.write(pa.table(dict(zip(names, columns, strict=True))))


_TYPES = (pa.int32(), pa.int32(), pa.string())


def read(table: Table, columns: list[str] | None = None) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(columns).to_arrow().to_pylist())


@pytest.mark.parametrize(
    "more", ["", ", 'changelog-producer' = 'lookup'", ", 'deletion-vectors.enabled' = 'true'"], ids=repr
)
def test_a_registered_merge_engine_merges(warehouse: str, more: str) -> None:
    table = make(warehouse, f"'merge-engine' = 'longest'{more}")
    last = make(warehouse, f"'merge-engine' = 'last-non-null'{more}", "u")
    for one in (table, last):
        write(one, (1, 10, "aaa"), (2, None, "b"))
        write(one, (1, 11, "aa"), (2, 20, None))
        one.compact()
        write(one, (1, None, "a"), (2, 21, "bb"))
        one.compact()
    assert read(table) == [(1, 10, "aaa"), (2, 21, "bb")]
    assert read(table, ["id", "v"]) == [(1, 10), (2, 21)]
    assert read(last) == [(1, 11, "a"), (2, 21, "bb")]


def test_an_engine_says_whether_its_table_may_have_a_log_and_changes(warehouse: str) -> None:
    with pytest.raises(InvalidOption, match="'log.content' = 'input' does not go with 'merge-engine' = 'longest'"):
        make(warehouse, "'merge-engine' = 'longest', 'log-store.enabled' = 'true', 'log.content' = 'input'")
    lake = lakelog.connect(warehouse=warehouse)
    make(warehouse, "'merge-engine' = 'longest'")
    with pytest.raises(UnsupportedFeature, match="UPDATE of table db.t .* merge engine 'longest'"):
        lake.sql("update db.t set v = 1")


def test_a_registered_engine_and_log_system_hold_a_table_of_both_stores(warehouse: str) -> None:
    logged = "'merge-engine' = 'latest', 'log-store.enabled' = 'true', 'log.system' = 'journal'"
    table = make(warehouse, logged)
    write(table, (1, 10, "a"), (2, 20, "b"))
    write(table, (1, 11, "c"))
    assert read(table) == [(1, 11, "c"), (2, 20, "b")]
    batches = table.tail("earliest", stop="latest")
    told = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert [row[:3] for row in told] == [(1, 10, "a"), (2, 20, "b"), (1, 11, "c")]
    assert table.scan(options={"read.mode": "union"}).to_arrow().num_rows == 2
    file = Path(table.path) / "journal" / "records.sqlite"
    assert file.exists()
    again = lakelog.connect(warehouse=warehouse)
    assert read(again.table("db.t")) == read(table)
    with pytest.raises(InvalidOption, match="'log-store.address'"):
        again.sql("alter table db.t set tblproperties ('log-store.address' = '/elsewhere')")
    again.sql("drop table db.t")
    assert not file.exists()


def test_a_log_without_a_type_is_lakelogs_own(warehouse: str) -> None:
    options = make(warehouse, "'log-store.enabled' = 'true'").options
    assert options["log-store.type"] == "embedded"
    assert list(LOG_SYSTEMS)[-2:] == ["journal", "broken"]


@pytest.mark.parametrize("scheme", ["pulsar", ""])
def test_a_scheme_of_lakelogs_own_log_systems_is_not_taken(
    warehouse: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = replace(LOG_SYSTEMS.load("journal"), schemes=("pulsar", ""), properties={"ssl.key.location": VALUE})
    monkeypatch.setattr("others_log.JOURNAL", journal)
    assert log_system_at(f"{scheme}://there:6650" if scheme else "there:9092") == (scheme or "kafka")
    assert client_properties()["ssl.key.location"] == FILE


def test_a_log_system_that_cannot_be_imported_fails_only_by_its_name(warehouse: str) -> None:
    make(warehouse, "'log-store.enabled' = 'true'")
    with pytest.raises(ModuleNotFoundError, match="others_missing"):
        make(warehouse, "'log-store.enabled' = 'true', 'log-store.type' = 'broken'", "u")


def test_the_scheme_of_an_address_chooses_a_registered_log_system(warehouse: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"an embedded log \('log-store.address'\)"):
        make(warehouse, f"'log-store.enabled' = 'true', 'log-store.address' = 'journal://{tmp_path}/outside'")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of processes that have the package."""
    return os.pathsep.join([str(tmp_path / "site"), *sys.path])


def command(path: str, *words: str) -> str:
    called = [sys.executable, "-m", "lakelog", *words]
    done = subprocess.run(called, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_other_processes_know_registered_parts(warehouse: str, path: str) -> None:
    told = command(path, "doctor", "--only", "log", "--log", "journal", "--warehouse", warehouse)
    assert "embedded log: one append " in told


def filled(warehouse: str) -> lakelog.Lake:
    write(make(warehouse, "'merge-engine' = 'deduplicate'"), (1, 10, "a"), (2, 20, "b"))
    return lakelog.connect(warehouse=warehouse)


def test_a_registered_statement_and_procedure_run_without_spark(warehouse: str) -> None:
    lake = filled(warehouse)
    told = lake.run(
        "tell the rows of db.t; CALL sys.tell_rows('db.t', beside => 1); call lakelog.sys.TELL_ROWS('db.t')"
    )
    assert [one.to_pylist() for one in told] == [[{"rows": 2}], [{"rows": 3}], [{"rows": 2}]]
    (plan,) = lake.sql("explain sweep db.t").column("plan").to_pylist()
    assert plan.startswith("== Write ==\nSWEEP of table db.t") and "a snapshot without all files (1)" in plan
    assert lake.table("db.t").scan().to_arrow().num_rows == 2
    lake.sql("sweep db.t")
    assert lake.table("db.t").scan().to_arrow().num_rows == 0
    assert "not started" in repr(lake)


def test_a_registered_statement_and_procedure_tell_of_mistakes_as_lakelogs_own(warehouse: str) -> None:
    lake = filled(warehouse)
    with pytest.raises(UnsupportedStatement, match="line 2, column 22"):
        lake.sql("tell the rows of db.t;\ntell the rows of db.t, db.u")
    with pytest.raises(lakelog.errors.NotFound, match="db.u"):
        lake.sql("tell the rows of db.u")
    with pytest.raises(
        lakelog.errors.InvalidRequest, match=r"'besides', did you mean 'beside'\? Write CALL sys.tell_r"
    ):
        lake.sql("call sys.tell_rows('db.t', besides => 1)")
    with pytest.raises(lakelog.errors.InvalidRequest, match="unknown procedure 'tell_row', did you mean 'tell_rows'"):
        lake.sql("call sys.tell_row('db.t')")


def test_explain_of_a_procedure_says_what_to_write(warehouse: str) -> None:
    with pytest.raises(UnsupportedStatement, match="EXPLAIN does not describe CALL: write the CALL without EXPLAIN"):
        filled(warehouse).sql("explain call sys.tell_rows('db.t')")


def test_commands_run_a_registered_statement_and_procedure(warehouse: str, path: str) -> None:
    filled(warehouse)
    told = command(
        path, "sql", "--warehouse", warehouse, "--format", "csv", "tell the rows of db.t; explain sweep db.t"
    )
    assert told.startswith("rows\n2\n") and "SWEEP of table db.t" in told
    called = ("call", "tell_rows", "db.t", "beside=40", "--warehouse", warehouse, "--format", "csv")
    assert command(path, *called) == "rows\n42\n"
    assert "lakelog call tell_rows TABLE [beside=…]" in command(path, "call", "--format", "csv")
    completion = ShellComplete(command_line, {}, "lakelog", "_LAKELOG_COMPLETE")
    assert [item.value for item in completion.get_completions(["call"], "tell")] == ["tell_rows"]
    assert [item.value for item in completion.get_completions(["call", "tell_rows", "db.t"], "")] == ["beside="]


def test_a_terminal_lets_those_run_a_registered_statement_whose_role_covers_it(
    warehouse: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(warehouse)
    monkeypatch.setenv("PYTHONPATH", path)
    with Terminal(TerminalConfig(warehouse, role=Privilege.READ)) as reader:
        assert rows(reader, "tell the rows of db.t") == [[2]]
        assert "SWEEP of table db.t" in rows(reader, "explain sweep db.t")[0][0]
        for text, role in (("sweep db.t", "write"), ("call sys.tell_rows('db.t')", "admin")):
            error = run(reader, text).snapshot().error
            assert error is not None and error.refused and f"needs the role {role}" in error.message
        error = run(reader, "swep db.t").snapshot().error
        assert error is not None and "did you mean 'SWEEP'?" in error.message
    with Terminal(TerminalConfig(warehouse, role=Privilege.ADMIN)) as admin:
        assert rows(admin, "call sys.tell_rows('db.t')") == [[2]]
        done(admin, "sweep db.t")
        assert rows(admin, "tell the rows of db.t") == [[0]]


def test_a_writer_names_no_server_in_a_property_of_a_registered_log_system(
    warehouse: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", path)
    options = "'log-store.enabled' = 'true', 'log-store.type' = 'journal', 'properties.journal.mirror' = 'inside:80'"
    with Terminal(TerminalConfig(warehouse, role=Privilege.WRITE)) as writer:
        error = run(writer, f"create table x (id int) using lakelog tblproperties ({options})").snapshot().error
        assert error is not None and error.refused and "names the server 'inside:80'" in error.message


def test_a_registered_catalog_gets_options_of_its_own(warehouse: str) -> None:
    options = {"catalog.type": "shelf", "fields.shelf.place": "above"}
    assert open_catalog(warehouse, catalog_options=options).place == "above"  # type: ignore[attr-defined]


def test_without_its_package_a_statement_is_nobodys() -> None:
    assert "SWEEP" not in STATEMENTS and "tell_rows" not in PROCEDURES


def test_an_unknown_name_is_answered_with_the_registered_ones(warehouse: str) -> None:
    for option, registry, added in (
        ("merge-engine", MERGE_ENGINES, "longest"),
        ("log-store.type", LOG_SYSTEMS, "journal"),
    ):
        with pytest.raises(InvalidOption, match=f"'{option}' = 'paper' must be one of: ") as why:
            make(warehouse, f"'{option}' = 'paper'")
        assert str(why.value).rpartition(": ")[2].split(", ") == list(registry)
        assert added in registry


def test_without_the_package_its_tables_name_what_is_missing(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    with installed(tmp_path / "site"):
        write(make(warehouse, "'merge-engine' = 'longest'"), (1, 10, "a"))
    with pytest.raises(InvalidOption, match="'merge-engine' = 'longest' must be one of: deduplicate, "):
        read(lakelog.connect(warehouse=warehouse).table("db.t"))


def test_the_name_of_an_own_part_is_not_replaced() -> None:
    assert isinstance(LOG_SYSTEMS.create("kafka"), KafkaLogSystem)
