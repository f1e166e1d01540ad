"""One table by its directory, without a warehouse to connect to."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidRequest, NotFound

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lake = lakelog.connect(tmp_path / "warehouse")
    lake.create_table("db.t", ROWS, primary_key="id", options={"log-store.enabled": True})
    lake.write(ROWS, "db.t")
    return tmp_path / "warehouse"


@pytest.mark.parametrize("path", ["warehouse/db.db/t", "./warehouse/db.db/t/", Path("warehouse/db.db/t")], ids=repr)
def test_a_path_opens_its_table(warehouse: Path, path: str | Path) -> None:
    table = lakelog.open_table(path)
    assert (table.name, table.path) == ("db.t", str(warehouse / "db.db" / "t"))
    assert table.scan().count() == 2
    table.write(pa.table({"id": [3], "name": ["c"]}))
    assert table.tail("earliest", stop="latest").to_arrow().num_rows == 3
    table.compact()
    assert len(table.snapshots()) == 3
    assert lakelog.connect(warehouse).table("db.t").scan().count() == 3


def test_a_path_may_be_relative_to_the_warehouse_itself_or_to_the_home(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(warehouse.parent))
    assert lakelog.open_table("~/warehouse/db.db/t").scan().count() == 2
    os.chdir(warehouse)
    assert lakelog.open_table("db.db/t").scan().count() == 2


@pytest.mark.parametrize("path", ["warehouse", "warehouse/db.db", "warehouse/db.db/", "warehouse/db/t", "t", "", "/"])
def test_any_other_path_is_refused(warehouse: Path, path: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is not a table's directory: it should end in '<db>\.db/<table>'"):
        lakelog.open_table(path)


@pytest.mark.parametrize(
    "path", ["warehouse/db.db/..", "warehouse/db.db/../db.db/.", "warehouse/...db/t", "a/../.db/t"]
)
def test_a_path_does_not_leave_its_warehouse(warehouse: Path, path: str) -> None:
    with pytest.raises(InvalidRequest):
        lakelog.open_table(path)


def test_a_directory_without_a_table_is_not_found(warehouse: Path) -> None:
    with pytest.raises(NotFound, match=r"table db\.tt does not exist in .*, did you mean 't'"):
        lakelog.open_table("warehouse/db.db/tt")
    with pytest.raises(NotFound):
        lakelog.open_table("nowhere/db.db/t")
    assert not Path("nowhere").exists()


def test_names_are_taken_as_they_are(warehouse: Path) -> None:
    lake = lakelog.connect(warehouse)
    lake.create_table("`größe`.`my-table`", ROWS)
    lake.write(ROWS, "`größe`.`my-table`")
    assert lakelog.open_table(warehouse / "größe.db" / "my-table").scan().count() == 2


def test_anything_else_than_a_path_is_an_error() -> None:
    with pytest.raises(InvalidRequest, match="not int"):
        lakelog.open_table(3)  # type: ignore[arg-type]
