"""In which catalog the data source looks a table up, and by whose options it reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from lakelog import connect
from lakelog.errors import InvalidOption, NotFound
from lakelog.spark import source
from lakelog.spark.source import LakelogDataSource
from lakelog.spark.table_options import options_of
from lakelog.table.catalog_place import CatalogPlace

SECOND = {"s3.endpoint": "http://second", "s3.secret-key": "hush"}


class Source(LakelogDataSource):
    catalogs = {
        "": CatalogPlace("s3://lake/w", {"s3.endpoint": "http://first"}),
        "prod": CatalogPlace("s3://lake/w", SECOND),
        "deep": CatalogPlace("s3://lake/w/deep/", {"s3.endpoint": "http://deep"}),
    }
    first = "house"


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was to be opened: (warehouse, name, storage options), or (directory, storage options)."""
    found: list[tuple[Any, ...]] = []

    def by_name(warehouse: str, name: Any, hints: Mapping, scope: str, storage: Mapping[str, str]) -> None:
        found.append((warehouse, str(name).removeprefix(f"{name.catalog}."), dict(storage)))

    def by_path(path: str, hints: Mapping, scope: str, storage: Mapping[str, str]) -> None:
        assert not hints
        found.append((path, dict(storage)))

    monkeypatch.setattr(source, "settle", lambda: None)
    monkeypatch.setattr(source, "open_by_name", by_name)
    monkeypatch.setattr(source, "open_by_path", by_path)
    return found


def look(kind: type[LakelogDataSource] = Source, **options: str) -> None:
    kind(CaseInsensitiveDict(options))._table("read")


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({"path": "db.t"}, "http://first"),
        ({"path": "house.db.t"}, "http://first"),
        ({"path": "arctic.db.t"}, "http://first"),
        ({"path": "prod.db.t"}, "http://second"),
        ({"path": "PROD.db.t"}, "http://second"),
        ({"path": "db.t", "catalog": "prod"}, "http://second"),
        ({"path": "deep.db.t", "catalog": "prod"}, "http://deep"),
        ({"path": "s3://lake/w/db.db/t"}, "http://first"),
        ({"path": "s3://lake/w/db.db/t", "catalog": "prod"}, "http://second"),
        ({"path": "s3://lake/w/deep/db.db/t"}, "http://deep"),
        ({"path": "s3://elsewhere/db.db/t"}, "http://first"),
        ({"path": "prod.db.t", "s3.endpoint": "http://own"}, "http://own"),
    ],
)
def test_a_table_is_reached_by_the_options_of_its_catalog(
    opened: list[tuple[Any, ...]], given: dict[str, str], endpoint: str
) -> None:
    look(**given)
    assert opened[0][-1]["s3.endpoint"] == endpoint


def test_a_catalog_says_the_warehouse(opened: list[tuple[Any, ...]]) -> None:
    look(path="deep.db.t")
    look(path="any.db.t", warehouse="./own")
    assert opened == [
        ("s3://lake/w/deep/", "db.t", {"s3.endpoint": "http://deep"}),
        ("./own", "db.t", {"s3.endpoint": "http://first"}),
    ]


@pytest.mark.parametrize(("name", "catalog"), [("prod.db.t", "prod"), ("db.t", None)])
def test_a_table_in_hand_is_found_again_by_its_catalog(tmp_path: Path, name: str, catalog: str | None) -> None:
    lake = connect(warehouse=str(tmp_path / "a"), catalogs={"prod": {"warehouse": str(tmp_path / "b")}})
    lake.sql(f"create table {name} (id int) using lakelog")
    found = options_of(lake.table(name)._table.with_hints({"read.mode": "file"}))
    assert (found["read.mode"], found.get("catalog")) == ("file", catalog)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(NotFound, match="catalog 'prid' does not exist, did you mean 'prod'. Known: house, deep, prod"):
        look(path="prid.db.t")
    with pytest.raises(InvalidOption, match="in which warehouse is 'db.t'"):
        look(LakelogDataSource, path="db.t")
