"""In which catalog the data source looks a table up, and by whose options it reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from lakelog import connect
from lakelog.errors import InvalidOption, NotFound
from lakelog.spark.runtime.types import options_of
from lakelog.spark.session import data_source as source
from lakelog.spark.session.data_source import LakelogDataSource
from lakelog.table.catalog_config import CatalogConfig

SECOND = {"s3.endpoint": "http://second", "s3.secret-key": "hush"}


class Source(LakelogDataSource):
    catalogs = {
        "": CatalogConfig("s3://lake/w", {"s3.endpoint": "http://first"}),
        "prod": CatalogConfig("s3://lake/w", SECOND),
        "deep": CatalogConfig("s3://lake/w/deep/", {"s3.endpoint": "http://deep"}),
    }
    first = "house"


SERVED = {"catalog.type": "rest", "catalog.uri": "https://house"}


class Served(LakelogDataSource):
    catalogs = {
        "": CatalogConfig("./lake", {}),
        "served": CatalogConfig("./lake/served", {}, SERVED),
        "far": CatalogConfig("s3a://lake/w", {}, SERVED),
    }


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was to be opened: (warehouse, name, catalog options, storage options), or the same with (directory, …)."""
    found: list[tuple[Any, ...]] = []

    def by_name(warehouse: str, name: Any, hints: Any, scope: str, storage: Mapping, catalog: Mapping, *_: Any) -> None:
        found.append((warehouse, str(name).removeprefix(f"{name.catalog}."), dict(catalog or {}), dict(storage)))

    def by_path(path: str, hints: Mapping, scope: str, storage: Mapping, catalog: Any = None, *_: Any) -> None:
        assert not hints
        found.append((path, dict(catalog or {}), dict(storage)))

    monkeypatch.setattr(source, "prepare_worker", lambda *_: None)
    monkeypatch.setattr(source, "open_by_name", by_name)
    monkeypatch.setattr(source, "open_by_path", by_path)
    return found


def look(kind: type[LakelogDataSource] = Source, **options: str) -> None:
    kind(CaseInsensitiveDict(options)).opened("read")


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
        ("s3://lake/w/deep/", "db.t", {}, {"s3.endpoint": "http://deep"}),
        ("./own", "db.t", {}, {"s3.endpoint": "http://first"}),
    ]


@pytest.mark.parametrize(
    ("given", "is_served"),
    [
        ({"path": "served.db.t"}, True),
        ({"path": "db.t", "catalog": "far"}, True),
        ({"path": "./lake/served/db.db/t"}, True),
        ({"path": "lake/x/../served/db.db/t"}, True),
        ({"path": f"{Path.cwd()}/lake/served/db.db/t"}, True),
        ({"path": f"file://{Path.cwd()}/lake/served/db.db/t"}, True),
        ({"path": "s3://lake/w/db.db/t"}, True),
        ({"path": "db.t"}, False),
        ({"path": "./lake/other/db.db/t"}, False),
        ({"path": "./lake/served2/db.db/t", "catalog": "served"}, False),
        ({"path": "db.t", "warehouse": "./own", "catalog": "served"}, False),
    ],
)
def test_a_table_that_a_server_commits_to_is_opened_by_its_catalog(
    opened: list[tuple[Any, ...]], given: dict[str, str], is_served: bool
) -> None:
    look(Served, **given)
    assert opened[0][-2] == (SERVED if is_served else {})


@pytest.mark.parametrize(("name", "catalog"), [("prod.db.t", "prod"), ("db.t", None)])
def test_a_table_in_hand_is_found_again_by_its_catalog(tmp_path: Path, name: str, catalog: str | None) -> None:
    lake = connect(warehouse=str(tmp_path / "a"), catalogs={"prod": {"warehouse": str(tmp_path / "b")}})
    lake.sql(f"create table {name} (id int) using lakelog")
    found = options_of(lake.table(name).logical.with_hints({"read.mode": "file"}))
    assert (found["read.mode"], found.get("catalog")) == ("file", catalog)


def test_a_missing_object_is_reported() -> None:
    with pytest.raises(NotFound, match="catalog 'prid' does not exist, did you mean 'prod'. Known: house, deep, prod"):
        look(path="prid.db.t")
    with pytest.raises(InvalidOption, match="the warehouse of 'db.t'"):
        look(LakelogDataSource, path="db.t")
