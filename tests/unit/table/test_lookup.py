"""The committed rows of keys, which healing an upsert log restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changelogs import newest
from lakelog import connect
from lakelog.lake.table import Table
from lakelog.options.log import DATA_FORMAT
from lakelog.table.read.committed_rows import rows_of_keys
from lakelog.table.read.file_scan import Scan


@pytest.fixture(params=["debezium-json", "arrow"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    lake = connect(warehouse=str(tmp_path / "warehouse"))
    lake.sql(
        "create table db.t (day string, id int, many array<int>, named map<string, int>, inside struct<a: int>, "
        "primary key (day, id)) using lakelog partitioned by (day) tblproperties ('log-store.enabled' = 'true', "
        f"'bucket' = '2', 'log.changelog-mode' = 'upsert', '{DATA_FORMAT.key}' = '{request.param}')"
    )
    return lake.table("db.t")


def rows(table: Table, number: int, *keys: tuple[str, int]) -> pa.Table:
    made = [
        {"day": day, "id": i, "many": [number, i], "named": [("x", number)], "inside": {"a": number}} for day, i in keys
    ]
    return pa.Table.from_pylist(made, table.schema)


def told(table: Table) -> dict[tuple[str, int], Any]:
    """Key → the newest row that the log tells."""
    found = newest(table.tail("earliest", stop="latest"), "day", "id")
    return {key: (row["many"], row["named"], row["inside"]) for key, row in found.items()}


def committed(table: Table) -> dict[tuple[str, int], Any]:
    found = table.scan().to_arrow().to_pylist()
    return {(row["day"], row["id"]): (row["many"], row["named"], row["inside"]) for row in found}


def test_rows_with_nested_columns_are_restored(table: Table) -> None:
    table.write(rows(table, 1, ("mon", 1), ("mon", 2), ("tue", 1)))
    with pytest.raises(KeyError), table.writer() as writer:
        writer.write(rows(table, 9, ("mon", 1), ("tue", 1), ("tue", 2)))
        writer.flush()
        raise KeyError("the writer fails")
    assert told(table) == committed(table)
    assert sorted(committed(table)) == [("mon", 1), ("mon", 2), ("tue", 1)]


def test_only_whole_keys_are_found(table: Table) -> None:
    table.write(rows(table, 1, ("mon", 1), ("mon", 2), ("tue", 1)))
    keys = rows(table, 0, ("mon", 2), ("tue", 1), ("tue", 2), ("wed", 1)).select(["day", "id"])
    found = rows_of_keys(Scan(table.logical), keys)
    assert sorted(zip(found["day"].to_pylist(), found["id"].to_pylist(), strict=True)) == [("mon", 2), ("tue", 1)]
    assert rows_of_keys(Scan(table.logical), keys.slice(0, 0)).num_rows == 0
