"""A table on an object store and on HDFS, from its creation to its end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import Lake
from lakelog.errors import InvalidOption, NotFound
from servers.warehouse import Warehouse

CREATE = """create database db;
    create table db.t (id bigint, name string, primary key (id)) using lakelog
    tblproperties ('bucket' = '1')"""


def rows(lake: Lake, snapshot: int | None = None) -> dict[int, str]:
    found = lake.table("db.t").scan(snapshot_id=snapshot).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["name"] for row in found}


def write(lake: Lake, *pairs: tuple[int, str]) -> None:
    ids, names = zip(*pairs, strict=True)
    lake.table("db.t").write(pa.table({"id": pa.array(ids, pa.int64()), "name": names}))


def test_a_table_lives_there_from_create_to_drop(warehouse: Warehouse) -> None:
    lake = warehouse.connect()
    lake.sql(CREATE)
    assert lake.list_tables() == ["db.t"]
    write(lake, (1, "a"), (2, "b"))
    write(lake, (2, "B"), (3, "c"))
    assert rows(warehouse.connect()) == {1: "a", 2: "B", 3: "c"}
    assert rows(lake, 1) == {1: "a", 2: "b"}
    assert lake.table("db.t").scan(filter="id = 2").to_arrow().to_pylist() == [{"id": 2, "name": "B"}]
    lake.table("db.t").compact()
    assert rows(lake) == {1: "a", 2: "B", 3: "c"}
    lake.sql("drop table db.t")
    assert lake.list_databases() == ["db"], "a database without tables lasts"
    with pytest.raises(NotFound):
        lake.table("db.t")
    lake.sql("drop database db")
    assert lake.list_databases() == []


def test_an_embedded_log_is_refused_there_and_allowed_on_the_local_disk(warehouse: Warehouse, tmp_path: Path) -> None:
    lake = warehouse.connect()
    lake.sql("create database db")
    create = "create table db.t (id bigint, name string, primary key (id)) using lakelog tblproperties "
    with pytest.raises(InvalidOption, match=r"local disk: set 'log-store\.type' = 'files'"):
        lake.sql(f"{create} ('log-store.enabled' = 'true', 'log-store.type' = 'embedded')")
    place = f"'log-store.type' = 'embedded', 'log-store.address' = '{tmp_path}/log.sqlite'"
    with pytest.raises(InvalidOption, match=r"log-store\.address.*catalog\.external-paths"):
        lake.sql(f"{create} ('log-store.enabled' = 'true', {place})")
    lake = warehouse.connect(catalog_options={"catalog.external-paths": str(tmp_path)})
    lake.sql(f"{create} ('log-store.enabled' = 'true', {place})")
    write(lake, (1, "a"), (2, "b"))
    (batch,) = lake.table("db.t").tail("earliest", stop="latest")
    assert batch.column("_row_kind").to_pylist() == ["+I", "+I"]
    assert rows(lake) == {1: "a", 2: "b"}


def test_a_log_without_a_server_is_in_the_table_directory(warehouse: Warehouse) -> None:
    lake = warehouse.connect()
    lake.sql("create database db")
    lake.sql(CREATE.partition(";")[2].replace("'bucket'", "'log-store.enabled' = 'true', 'bucket'"))
    assert lake.table("db.t").options["log-store.type"] == "files"
    reader = warehouse.connect().table("db.t").tail("earliest")
    write(lake, (1, "a"), (2, "b"))
    assert [row["id"] for row in next(reader).to_pylist()] == [1, 2]
    write(warehouse.connect(), (2, "B"), (3, "c"))
    assert [row["id"] for row in next(reader).to_pylist()] == [2, 3]
    reader.close()
    assert rows(lake) == {1: "a", 2: "B", 3: "c"}
    lake.sql("drop table db.t")
    lake.sql(CREATE.partition(";")[2].replace("'bucket'", "'log-store.enabled' = 'true', 'bucket'"))
    assert list(lake.table("db.t").tail("earliest", stop="latest")) == []
