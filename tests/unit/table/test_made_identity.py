"""The identity of tables that have none in their options: Paimon's, and those of earlier versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakelog import connect
from lakelog.errors import TableReplaced
from lakelog.lake.lake import Lake
from lakelog.options.table import TABLE_ID
from two_lakes import stores, write

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
_LOG = "tblproperties ('log-store.enabled' = 'true', 'log-store.data-format' = 'debezium-json')"
_LOGS = pytest.mark.parametrize("log", [_LOG, ""], ids=["log", "no log"])


def without_identity(lake: Lake, create: str) -> None:
    """Makes a table as Paimon and earlier versions make it."""
    lake.sql(create)
    first = Path(lake.table("db.x").path) / "schema" / "schema-0"
    schema = json.loads(first.read_bytes())
    del schema["options"][TABLE_ID]
    first.write_text(json.dumps(schema), encoding="utf-8")


@_LOGS
def test_a_table_that_was_made_without_an_identity_has_one(lakes, log: str) -> None:
    service, owner = lakes
    without_identity(owner, f"create table db.x (id int, v string, primary key (id)) {log}")
    table = service.table("db.x")
    write(table, 1, "before")
    identity = owner.table("db.x").logical.identity.text
    assert identity.startswith("made-")
    owner.sql("alter table db.x add column w int")
    assert stores(service.table("db.x")) == [(1, "before")]
    owner.sql("alter table db.x rename to db.y")
    assert owner.table("db.y").logical.identity.text == identity
    with pytest.raises(TableReplaced):
        write(table, 2, "refused")
    owner.sql("alter table db.y rename to db.x")
    table = service.table("db.x")
    write(table, 2, "after")
    assert stores(table) == [(1, "before"), (2, "after")]
    owner.sql("drop table db.x")
    without_identity(owner, f"create table db.x (id int, v string, w int, primary key (id)) {log}")
    with pytest.raises(TableReplaced):
        write(table, 3, "foreign")
    assert stores(owner.table("db.x")) == []


def test_a_table_of_paimon_takes_rows_and_keeps_its_schemas(tmp_path: Path) -> None:
    home = tmp_path / "warehouse" / "db.db" / "t"
    shutil.copytree(GOLDEN / "pk_dedup" / "g.db" / "pk_dedup", home)
    before = {file.name: file.read_bytes() for file in (home / "schema").iterdir()}
    table = connect(warehouse=str(tmp_path / "warehouse")).table("db.t")
    found = table.scan().to_arrow()
    table.write(found)
    assert table.scan().to_arrow().num_rows == found.num_rows
    assert {file.name: file.read_bytes() for file in (home / "schema").iterdir()} == before
    assert not (home / "lakelog").exists()
