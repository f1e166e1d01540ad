"""A table's identity in every kind of catalog: RENAME and ALTER keep it, DROP and CREATE make another one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import TableReplaced
from lakelog.lake.lake import Lake
from lakelog.lake.table import Table

CREATE = "create table db.{} (id bigint, primary key (id))"


@pytest.fixture
def lakes(catalog_options: dict[str, str], tmp_path: Path) -> list[Lake]:
    """Two that know nothing of each other; there is a table ``db.t`` with a row."""
    made = [connect(warehouse=str(tmp_path / "warehouse"), catalog_options=catalog_options) for _ in range(2)]
    made[0].sql("create database db")
    made[0].sql(CREATE.format("t"))
    write(made[0].table("db.t"), 1)
    return made


def write(table: Table, id_: int) -> None:
    table.write(pa.table({"id": [id_]}))


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("id").to_pylist())


def test_an_altered_and_renamed_table_is_the_same_and_its_old_handle_writes_nothing(lakes: list[Lake]) -> None:
    service, owner = lakes
    table = service.table("db.t")
    identity = table.logical.identity.text
    owner.sql("alter table db.t add column n int")
    owner.table("db.t").logical.check_identity()
    write(table, 2)  # the older schema is the table's own
    owner.sql("alter table db.t rename to db.u")
    assert owner.table("db.u").logical.identity.text == identity
    with pytest.raises(TableReplaced, match="open it again"):
        write(table, 3)
    owner.sql(CREATE.format("t"))
    with pytest.raises(TableReplaced, match="open it again"):
        write(table, 4)
    assert ids(owner.table("db.t")) == []
    assert ids(owner.table("db.u")) == [1, 2]


def test_a_table_that_is_dropped_and_created_is_another_one(lakes: list[Lake]) -> None:
    service, owner = lakes
    table = service.table("db.t")
    identity = table.logical.identity.text
    owner.sql("drop table db.t")
    with pytest.raises(TableReplaced, match="open it again"):
        write(table, 2)
    owner.sql(CREATE.format("t"))
    with pytest.raises(TableReplaced, match="open it again"):
        write(table, 3)
    with pytest.raises(TableReplaced, match="open it again"):
        ids(table)
    new = owner.table("db.t")
    assert new.logical.identity.text != identity
    assert ids(new) == []
