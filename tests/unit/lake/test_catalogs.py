"""Several catalogs in one lake, without Spark: names, the Python API, and what is not printed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import Lake, connect
from lakelog.errors import AlreadyExists, InvalidOption, InvalidRequest, NotFound
from lakelog.table.catalog_config import CatalogConfig


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake ``lakelog`` of directories and a catalog ``prod`` by a database, both with a table db.t."""
    named = {"catalog.type": "sql", "catalog.uri": f"sqlite:///{tmp_path}/names.db"}
    opened = connect(
        warehouse=str(tmp_path / "first"), catalogs={"prod": {"warehouse": str(tmp_path / "second"), **named}}
    )
    for name, values in (("db.t", [1, 2]), ("prod.db.t", [3])):
        opened.sql(f"create table {name} (id bigint, primary key (id)) using lakelog")
        opened.table(name).write(pa.table({"id": values}))
    return opened


def ids(lake: Lake, name: str) -> list[int]:
    return sorted(lake.table(name).scan().to_arrow()["id"].to_pylist())


def test_a_name_says_which_catalog(lake: Lake, tmp_path: Path) -> None:
    assert ids(lake, "db.t") == ids(lake, "lakelog.db.t") == ids(lake, "arctic.db.t") == [1, 2]
    assert ids(lake, "prod.db.t") == ids(lake, "PROD.db.t") == [3]
    assert lake.table("prod.db.t").name == "prod.db.t" and lake.table("lakelog.db.t").name == "db.t"
    assert lake.table("prod.db.t").path == f"{tmp_path}/second/db.db/t"
    assert lake.list_catalogs() == ["lakelog", "prod"]
    assert (lake.list_tables(), lake.list_tables(catalog="prod")) == (["db.t"], ["prod.db.t"])
    lake.sql("create database prod.more")
    assert (lake.list_databases(), lake.list_databases("prod")) == (["db"], ["db", "more"])
    for read in (lambda: lake.table("prid.db.t"), lambda: lake.list_tables(catalog="prid")):
        with pytest.raises(NotFound, match="catalog 'prid' does not exist, did you mean 'prod'. Known: lakelog, prod"):
            read()
    with pytest.raises(NotFound, match=r"table prod\.db\.tt does not exist in '.*second'"):
        lake.table("prod.db.tt")


def test_the_current_catalog_is_that_of_short_names(lake: Lake) -> None:
    first = lake.table("db.t")
    lake.sql("use prod.db")
    assert ids(lake, "t") == ids(lake, "db.t") == [3]
    assert lake.list_tables() == ["prod.db.t"]
    assert lake.list_tables(catalog="lakelog") == ["lakelog.db.t"] and ids(lake, "lakelog.db.t") == [1, 2]
    assert first._sql_name == "lakelog.db.t", "a handle goes on meaning its own table"
    lake.sql("use catalog lakelog")
    assert first._sql_name == "db.t" and ids(lake, "db.t") == [1, 2]


def test_a_table_changes_in_its_own_catalog(lake: Lake) -> None:
    lake.sql("alter table prod.db.t add column name string; alter table prod.db.t rename to u")
    assert lake.list_tables(catalog="prod") == ["prod.db.u"] and lake.list_tables() == ["db.t"]
    assert lake.table("prod.db.u").schema.names == ["id", "name"] and lake.table("db.t").schema.names == ["id"]
    with pytest.raises(InvalidRequest, match=r"table prod\.db\.u cannot become db\.u, which is in another catalog"):
        lake.sql("alter table prod.db.u rename to lakelog.db.u")
    lake.sql("call prod.sys.create_tag('db.u', 'one')")
    assert [tag.name for tag in lake.table("prod.db.u").tags()] == ["one"] and not lake.table("db.t").tags()
    lake.sql("drop database prod.db cascade")
    assert lake.list_databases("prod") == [] and lake.list_tables() == ["db.t"]


def test_a_catalog_is_added_and_dropped(lake: Lake, tmp_path: Path) -> None:
    lake.add_catalog("again", str(tmp_path / "first"))
    assert ids(lake, "again.db.t") == [1, 2], "the same warehouse by another name"
    held = lake.table("again.db.t")
    lake.drop_catalog("again")
    assert ids(lake, "db.t") == [1, 2]
    with pytest.raises(NotFound, match="catalog 'again' does not exist"):
        lake.table("again.db.t")
    with pytest.raises(NotFound, match="catalog 'again' was dropped"):
        held.alter()
    for name in ("prod", "LAKELOG"):
        with pytest.raises(AlreadyExists, match=f"catalog '{name}' exists"):
            lake.add_catalog(name, str(tmp_path))
    with pytest.raises(InvalidRequest, match="cannot be the name of a catalog"):
        lake.add_catalog("a.b", str(tmp_path))
    lake.sql("use catalog prod")
    with pytest.raises(InvalidRequest, match="'prod' is the current one: .*USE CATALOG lakelog"):
        lake.drop_catalog("prod")


def test_no_error_and_no_repr_shows_an_option(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match="catalog 'x' needs the option 'warehouse'"):
        lake.sql("create catalog x with ('s3.secret-key' = 'hush')")
    for options in ("'pasword' = 'hush'", "'s3.secert-key' = 'hush'", "'catalog.uri' = 'hush'"):
        with pytest.raises(InvalidOption) as raised:
            lake.sql(f"create catalog x with ('warehouse' = 'w', {options})")
        assert "hush" not in str(raised.value)
    assert lake.list_catalogs() == ["lakelog", "prod"], "what failed is not there"
    place = CatalogConfig.of("x", {"warehouse": "s3://b/w", "s3.secret-key": "hush", "catalog.uri": "hush"})
    assert repr(place) == "CatalogConfig(warehouse='s3://b/w')"
    assert dict(place.storage) == {"s3.secret-key": "hush"} and dict(place.catalog) == {"catalog.uri": "hush"}
