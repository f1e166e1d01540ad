"""A merge engine or a log system that another package registers works like lakelog's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidOption, UnsupportedFeature
from lakelog.lake.table import Table
from lakelog.logstore.kafka.system import KafkaLogSystem
from lakelog.options.parts import LOG_SYSTEMS, MERGE_ENGINES
from new_parts import installed


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
    with table.writer() as writer:
        writer.write(pa.table(dict(zip(names, columns, strict=True))))


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


def test_the_scheme_of_an_address_chooses_a_registered_log_system(warehouse: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"an embedded log \('log-store.address'\)"):
        make(warehouse, f"'log-store.enabled' = 'true', 'log-store.address' = 'journal://{tmp_path}/outside'")


def test_other_processes_know_registered_parts(warehouse: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(tmp_path / "site"), *sys.path])
    command = [sys.executable, "-m", "lakelog", "doctor", "--only", "log", "--log", "journal", "--warehouse", warehouse]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "embedded log: one append " in done.stdout


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
