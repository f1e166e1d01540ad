"""Names as rows of a database, beside directories: what either of them has without the other, and who shares them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.filesystem import FilesystemCatalog
from lakelog.catalog.kinds.sql import SqlCatalog
from lakelog.errors import AlreadyExists, InvalidOption, InvalidRequest, NotFound, Unavailable, UnsupportedFeature
from lakelog.io.storage.local import LocalFileIO
from lakelog.options.option import Options
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import BIGINT, INT

SCHEMA = new_schema([("id", BIGINT, None)], ["id"], [], {"bucket": "2"})
OTHER = new_schema([("n", INT, None)], [], [], {})
ORDERS = Identifier("shop", "orders")


def catalog_at(place: Path, warehouse: str = "warehouse", key: str = "jdbc", io=None) -> SqlCatalog:
    options = Options({"catalog.uri": f"sqlite:///{place}/names.db", "catalog.key": key})
    return SqlCatalog(str(place / warehouse), io or LocalFileIO(), options)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = catalog_at(tmp_path)
    made.create_database("shop")
    return made


def rows(place: Path, table: str) -> list[tuple]:
    with sqlite3.connect(place / "names.db") as connection:
        return sorted(connection.execute(f"select * from {table}"))


def test_names_are_rows_as_in_paimon(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.create_table(ORDERS, SCHEMA)
    catalog.create_table(Identifier("default", "t"), OTHER)
    assert rows(tmp_path, "paimon_tables") == [("jdbc", "default", "t"), ("jdbc", "shop", "orders")]
    location = f"{tmp_path}/warehouse/shop.db"
    assert rows(tmp_path, "paimon_database_properties")[2:] == [
        ("jdbc", "shop", "exists", "true"),
        ("jdbc", "shop", "location", location),
    ]
    assert catalog.load_table(ORDERS).path == f"{location}/orders"
    assert FilesystemCatalog(str(tmp_path / "warehouse"), LocalFileIO()).load_table(ORDERS).schema == SCHEMA


def test_a_table_without_a_name_is_taken_over_when_asked(catalog: SqlCatalog, tmp_path: Path) -> None:
    FilesystemCatalog(str(tmp_path / "warehouse"), LocalFileIO()).create_table(ORDERS, SCHEMA)
    with pytest.raises(NotFound):
        catalog.load_table(ORDERS)
    with pytest.raises(AlreadyExists, match="CREATE TABLE IF NOT EXISTS"):
        catalog.create_table(ORDERS, OTHER)
    assert catalog.create_table(ORDERS, OTHER, if_not_exists=True).schema == SCHEMA
    assert catalog.list_tables("shop") == ["orders"]


def test_a_table_that_only_the_directory_knows_outlives_its_database_name(catalog: SqlCatalog, tmp_path: Path) -> None:
    files = FilesystemCatalog(str(tmp_path / "warehouse"), LocalFileIO())
    files.create_table(ORDERS, SCHEMA)
    with pytest.raises(InvalidRequest, match="has 1 tables"):
        catalog.drop_database("shop")
    assert files.load_table(ORDERS).schema == SCHEMA


def test_what_paimons_catalog_makes_is_opened(tmp_path: Path) -> None:
    catalog = catalog_at(tmp_path)
    catalog.list_databases()
    with sqlite3.connect(tmp_path / "names.db") as connection:  # no directory, and a path with a scheme
        location = f"file:{tmp_path}/warehouse/paimon.db"
        connection.execute("insert into paimon_database_properties values ('jdbc', 'paimon', 'exists', 'true')")
        connection.execute(
            "insert into paimon_database_properties values ('jdbc', 'paimon', 'location', ?)", [location]
        )
    assert catalog.create_table(Identifier("paimon", "t"), SCHEMA).schema == SCHEMA
    assert catalog.list_tables("paimon") == ["t"]


class Dies(LocalFileIO):
    """Storage whose process is gone at a call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattribute__(self, name: str):
        if name == object.__getattribute__(self, "name"):
            raise KeyboardInterrupt
        return super().__getattribute__(name)


@pytest.mark.parametrize("dies_at", ["create", "delete_dir", "rename_dir"])
def test_a_creation_that_died_between_name_and_table_is_finished_by_the_next_one(tmp_path: Path, dies_at: str) -> None:
    catalog, dying, new = catalog_at(tmp_path), catalog_at(tmp_path, io=Dies(dies_at)), Identifier("shop", "new")
    catalog.create_database("shop")
    if dies_at == "create":
        with pytest.raises(KeyboardInterrupt):
            dying.create_table(ORDERS, SCHEMA)
        with pytest.raises(NotFound):
            catalog.load_table(ORDERS)
        assert catalog.create_table(ORDERS, OTHER).schema == OTHER
        return
    catalog.create_table(ORDERS, SCHEMA)
    if dies_at == "delete_dir":
        with pytest.raises(KeyboardInterrupt):
            dying.drop_table(ORDERS)
        assert catalog.list_tables("shop") == ["orders"]
        catalog.drop_table(ORDERS)
        assert catalog.list_tables("shop") == []
        return
    with pytest.raises(KeyboardInterrupt):
        dying.rename_table(ORDERS, new)
    assert catalog.load_table(ORDERS).schema == SCHEMA, "neither has moved"
    FilesystemCatalog(catalog.warehouse, LocalFileIO()).rename_table(ORDERS, new)  # only the directory has moved
    catalog.rename_table(ORDERS, new)
    assert catalog.load_table(new).schema == SCHEMA and catalog.list_tables("shop") == ["new"]


def test_several_catalogs_share_a_database_and_know_only_their_own(tmp_path: Path) -> None:
    one, two = catalog_at(tmp_path, "one", "one"), catalog_at(tmp_path, "two", "two")
    for catalog, schema in ((one, SCHEMA), (two, OTHER)):
        catalog.create_database("shop")
        catalog.create_table(ORDERS, schema)
    one.drop_database("shop", cascade=True)
    assert two.load_table(ORDERS).schema == OTHER and one.list_databases() == []
    with pytest.raises(UnsupportedFeature, match="is at .*two/shop.db', not in the warehouse"):
        catalog_at(tmp_path, "elsewhere", "two").load_table(ORDERS)


def test_an_error_of_using_a_database_hides_its_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"needs the option 'catalog\.uri'"):
        connect(warehouse=str(tmp_path), catalog_options={"catalog.type": "sql"})
    with pytest.raises(InvalidOption, match=r"'catalog\.uri' .*'catalog\.type' = 'sql'"):
        connect(warehouse=str(tmp_path), catalog_options={"catalog.uri": "sqlite:///x"})
    options = Options({"catalog.uri": "postgresql+nodriver://user:hush@127.0.0.1/db"})
    broken = SqlCatalog(str(tmp_path), LocalFileIO(), options)
    assert "hush" not in repr(broken._rows)
    with pytest.raises(InvalidOption, match=r"'catalog\.uri' is not a valid database URL") as raised:
        broken.list_databases()
    assert "hush" not in str(raised.value)
    nowhere = SqlCatalog(str(tmp_path), LocalFileIO(), Options({"catalog.uri": "sqlite:////nowhere/at/all.db"}))
    with pytest.raises(Unavailable, match="the database of the catalog cannot be used"):
        nowhere.list_databases()


def test_a_lake_with_a_catalog_in_a_database(tmp_path: Path) -> None:
    given = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/names.db"}
    lake = connect(warehouse=str(tmp_path / "w"), catalog_options=given)
    lake.sql("create database shop; create table shop.orders (id bigint, primary key (id)) using lakelog")
    lake.table("shop.orders").write(pa.table({"id": [1, 2]}))
    lake.sql("alter table shop.orders rename to shop.sold")
    again = connect(warehouse=str(tmp_path / "w"), catalog_options=given)
    assert again.list_tables() == ["shop.sold"]
    assert again.table("shop.sold").scan().to_arrow().num_rows == 2
