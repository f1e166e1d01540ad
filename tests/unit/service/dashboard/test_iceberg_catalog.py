"""The Iceberg REST catalog of a dashboard, as a reader asks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from dashboards import TOKEN, RunningDashboard, running_dashboard
from iceberg_tables import make, numbers, write
from lakelog import Lake, connect


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def lake(warehouse: Path) -> Lake:
    lake = connect(warehouse)
    table = make(lake, "id int, name string")
    write(table, *numbers(0, 3))
    lake.sql("create table db.plain (id int)")
    lake.sql("create database `odd name`")
    lake.sql(
        "create table `odd name`.`t x` (id int, name string) "
        "tblproperties ('metadata.iceberg.storage' = 'table-location')"
    )
    return lake


@pytest.fixture(scope="module")
def dashboard(lake: Lake, warehouse: Path) -> Iterator[RunningDashboard]:
    with running_dashboard(warehouse) as found:
        yield found


def test_the_catalog_lists_databases_and_tables_with_iceberg_metadata(dashboard: RunningDashboard) -> None:
    with dashboard.client() as reader:
        config = reader.get("/iceberg/v1/config").json()
        prefix = config["overrides"]["prefix"]
        assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
        assert reader.get("/iceberg/v1/config", params={"warehouse": prefix}).json() == config
        root = f"/iceberg/v1/{prefix}/namespaces"
        assert reader.get(root).json() == {"namespaces": [["db"], ["odd name"]]}
        assert reader.get(root, params={"parent": "db"}).json() == {"namespaces": []}
        assert reader.get(f"{root}/db").json() == {"namespace": ["db"], "properties": {}}
        assert reader.head(f"{root}/db").status_code == 200
        assert reader.get(f"{root}/db/tables").json() == {"identifiers": [{"namespace": ["db"], "name": "t"}]}
        found = reader.get(f"{root}/odd%20name/tables").json()
        assert found == {"identifiers": [{"namespace": ["odd name"], "name": "t x"}]}


def test_a_table_is_loaded_with_its_newest_metadata(dashboard: RunningDashboard, lake: Lake) -> None:
    table = lake.table("db.t")
    with dashboard.client() as reader:
        prefix = reader.get("/iceberg/v1/config").json()["overrides"]["prefix"]
        address = f"/iceberg/v1/{prefix}/namespaces/db/tables/t"
        for first in (10, 20):
            write(table, *numbers(first, 2))
            loaded = reader.get(address).json()
            newest = table.latest_snapshot()
            assert newest is not None and loaded["metadata"]["current-snapshot-id"] == newest.id
            assert loaded["metadata-location"] == f"file://{table.path}/metadata/v{newest.id}.metadata.json"
            file = Path(loaded["metadata-location"].removeprefix("file://"))
            assert orjson.loads(file.read_bytes()) == loaded["metadata"]
        assert reader.head(address).status_code == 200


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("config?warehouse=nothing", "NoSuchWarehouseException"),
        ("nothing/namespaces", "NoSuchNamespaceException"),
        ("{}/namespaces/nothing", "NoSuchNamespaceException"),
        ("{}/namespaces/nothing/tables", "NoSuchNamespaceException"),
        ("{}/namespaces/nothing/tables/t", "NoSuchNamespaceException"),
        ("{}/namespaces/db/tables/nothing", "NoSuchTableException"),
        ("{}/namespaces/db/tables/plain", "NoSuchTableException"),
        ("{}/namespaces/db/tables/t$snapshots", "NoSuchTableException"),
        ("{}/namespaces/odd%20name/tables/t%20x", "NoSuchTableException"),  # nobody has written to it
    ],
)
def test_what_is_not_there_is_an_error_of_the_protocol(dashboard: RunningDashboard, path: str, kind: str) -> None:
    with dashboard.client() as reader:
        prefix = reader.get("/iceberg/v1/config").json()["overrides"]["prefix"]
        answer = reader.get(f"/iceberg/v1/{path.format(prefix)}")
        assert answer.status_code == 404, answer.text
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == (kind, 404) and error["message"]


def test_nothing_can_be_changed(dashboard: RunningDashboard, lake: Lake) -> None:
    with dashboard.client() as reader:
        prefix = reader.get("/iceberg/v1/config").json()["overrides"]["prefix"]
        root = f"/iceberg/v1/{prefix}/namespaces"
        for method, path in (
            ("POST", "/db/tables"),
            ("POST", "/db/tables/t"),
            ("DELETE", "/db/tables/t"),
            ("POST", ""),
        ):
            assert reader.request(method, f"{root}{path}", json={}).status_code == 405
    assert "db.t" in lake.list_tables("db")


def test_a_dashboard_with_a_token_asks_for_it(lake: Lake, warehouse: Path) -> None:
    with running_dashboard(warehouse, token=TOKEN) as guarded:
        with guarded.client() as reader:
            assert reader.get("/iceberg/v1/config").status_code == 401
        with guarded.program() as reader:
            assert reader.get("/iceberg/v1/config").status_code == 200
