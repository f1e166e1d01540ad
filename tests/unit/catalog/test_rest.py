"""A REST catalog whose server answers as it is told: what it is asked, where it may send clients, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakelog import connect
from lakelog.catalog.base import Identifier
from lakelog.catalog.kinds.rest import RestCatalog
from lakelog.catalog.rest_owner import RestOwner
from lakelog.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    InvalidSchema,
    NotFound,
    TableReplaced,
    UnsupportedFeature,
)
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.snapshot_owner import PartitionChange
from lakelog.options.option import Options
from lakelog.options.table import TABLE_ID
from lakelog.paimon.schema.changes import (
    AddColumn,
    DropColumn,
    SetOption,
)
from lakelog.paimon.schema.schema import new_schema
from lakelog.paimon.types.types import BIGINT, INT
from lakelog.table import create
from lakelog.table.catalog_config import CatalogConfig
from lakelog.table.open import open_table
from servers.scripted_http import ScriptedHttp

SCHEMA = new_schema([("id", BIGINT, None), ("n", INT, "a number")], ["id"], [], {"bucket": "2"}, "all orders")
ORDERS = Identifier("shop", "orders")
ONE = "/v1/p/databases/shop/tables/orders"
ALL = "/v1/p/databases/shop/tables"


@pytest.fixture
def server() -> Iterator[ScriptedHttp]:
    with ScriptedHttp({"GET /v1/config?warehouse=lake": (200, {"defaults": {"prefix": "p"}})}) as started:
        yield started


@pytest.fixture
def catalog(server: ScriptedHttp, tmp_path: Path) -> RestCatalog:
    options = {"catalog.uri": server.url, "catalog.token": "hush", "catalog.warehouse": "lake"}
    return RestCatalog(str(tmp_path), LocalFileIO(), Options(options))


def answers(server: ScriptedHttp, key: str, *given: Any) -> None:
    server.script[key] = [one if isinstance(one, tuple) else (200, one) for one in given]


def shown(path: str, **more: Any) -> dict[str, Any]:
    """What a server says of a table."""
    schema = {
        "fields": [f.to_json() for f in SCHEMA.fields],
        "partitionKeys": [],
        "primaryKeys": ["id"],
        "options": {"bucket": "2", "path": path},
        "comment": "all orders",
    }
    return {
        "id": "uuid-1",
        "name": "orders",
        "path": path,
        "isExternal": False,
        "schemaId": 0,
        "schema": schema,
        **more,
    }


def changes_of(server: ScriptedHttp) -> list[tuple[str, str, Any]]:
    return [(a.method, a.path.removeprefix("/v1/p"), a.body) for a in server.asked if a.method != "GET"]


def test_a_new_catalog_sends_no_request(catalog: RestCatalog, server: ScriptedHttp) -> None:
    assert catalog.warehouse and server.asked == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs the option 'catalog.uri'"),
        ({"catalog.uri": "https://h", "catalog.key": "x"}, "'catalog.key' .*'catalog.warehouse'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        RestCatalog("/w", LocalFileIO(), Options(options))


def test_a_table_is_made_as_the_protocol_says(catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path) -> None:
    answers(server, f"POST {ALL}", {})
    answers(server, f"GET {ONE}", shown(f"file:{tmp_path}/shop.db/orders"))
    made = catalog.create_table(ORDERS, SCHEMA)
    fields = [
        {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "n", "type": "INT", "description": "a number"},
    ]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": ["id"], "options": {"bucket": "2"}}
    body = {
        "identifier": {"database": "shop", "object": "orders"},
        "schema": {**schema, "comment": "all orders"},
    }
    assert changes_of(server) == [("POST", "/databases/shop/tables", body)]
    assert (made.path, made.schema) == (f"{tmp_path}/shop.db/orders", SCHEMA), "the server's words without a file"
    owner = made.io.snapshot_owner
    assert isinstance(owner, RestOwner) and (owner.database, owner.table, owner.table_id) == (
        "shop",
        "orders",
        "uuid-1",
    )
    again = pickle.loads(pickle.dumps(made))
    assert again.io.snapshot_owner == owner and again.io.snapshot_owner.api.token == "hush"
    assert "hush" not in f"{made!r} {again!r}"


def test_the_file_of_the_schema_counts_more_than_the_answer(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path
) -> None:
    newer = new_schema([("id", BIGINT, None)], time_millis=7)
    LocalFileIO().write(f"{tmp_path}/shop.db/orders/schema/schema-0", newer.to_json())
    answers(server, f"GET {ONE}", shown(f"file:{tmp_path}/shop.db/orders"))
    assert catalog.load_table(ORDERS).schema == newer


def test_a_path_outside_of_the_warehouse_is_not_opened(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path
) -> None:
    inside = f"{tmp_path}/shop.db/orders"
    for path in (
        "/etc",
        f"{tmp_path}",
        f"{tmp_path}/../x",
        f"{inside}/../../../x",
        f"{tmp_path}x/t",
        "s3://b/t",
        "",
        None,
    ):
        answers(server, f"GET {ONE}", shown(path))
        for open_ in (catalog.load_table, catalog.table_path):
            with pytest.raises(UnsupportedFeature, match=r"table shop\.orders at .*, not in the warehouse"):
                open_(ORDERS)
    for path in (inside, f"{inside}/", f"file:{inside}", f"file://{inside}", f"{tmp_path}/0c9/a-b"):
        answers(server, f"GET {ONE}", shown(path))
        assert catalog.load_table(ORDERS).path == path.removeprefix("file://").removeprefix("file:").rstrip("/")


def test_a_table_at_a_path_of_its_own_is_committed_to_by_its_files(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path
) -> None:
    answers(server, f"GET {ONE}", shown(f"{tmp_path}/x", isExternal=True))
    assert catalog.load_table(ORDERS).io.snapshot_owner is None


def test_a_table_without_snapshots_is_refused(catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path) -> None:
    found = shown(f"{tmp_path}/x")
    found["schema"]["options"]["type"] = "format-table"
    answers(server, f"GET {ONE}", found)
    with pytest.raises(UnsupportedFeature, match="is a format-table"):
        catalog.load_table(ORDERS)
    for wrong in ({"schema": None}, {"schemaId": "x"}, {"schema": {"fields": [{"id": 0}]}}):
        answers(server, f"GET {ONE}", shown(f"{tmp_path}/x", **wrong))
        with pytest.raises(Corrupt, match="no valid table for shop.orders"):
            catalog.load_table(ORDERS)


def test_names_that_cannot_be_asked_for_are_left_out(catalog: RestCatalog, server: ScriptedHttp) -> None:
    answers(server, "GET /v1/p/databases", {"databases": ["shop", "../etc", "a/b", ".hidden"]})
    answers(server, f"GET {ALL}", {"tables": ["t", "o", "t$snapshots", "", "t"]})
    assert (catalog.list_databases(), catalog.list_tables("shop")) == (["shop"], ["o", "t"])
    assert catalog.list_tables("default") == []


def test_names_are_checked_before_anybody_is_asked(catalog: RestCatalog, server: ScriptedHttp) -> None:
    bad = Identifier("shop", "../x")
    for act in (
        lambda: catalog.load_table(bad),
        lambda: catalog.table_path(bad),
        lambda: catalog.create_table(bad, SCHEMA),
        lambda: catalog.drop_table(bad),
        lambda: catalog.alter_table(bad, [DropColumn(("n",))]),
        lambda: catalog.rename_table(ORDERS, bad),
        lambda: catalog.create_database(".."),
        lambda: catalog.drop_database("a/b"),
        lambda: catalog.list_tables(".."),
    ):
        with pytest.raises(InvalidRequest, match="cannot be the name of a"):
            act()
    assert server.asked == []


def test_refusals_are_the_errors_of_a_catalog(catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path) -> None:
    there, bad = (409, {"message": "is there"}), (400, {"message": "so it cannot be"})
    answers(server, "GET /v1/p/databases", {"databases": ["shop"]})
    answers(server, f"GET {ALL}", {"tables": ["orders"]})
    answers(server, f"GET {ONE}", shown(f"{tmp_path}/x"))
    answers(server, "POST /v1/p/databases", there, there, bad)
    with pytest.raises(AlreadyExists, match="database 'shop' exists"):
        catalog.create_database("shop")
    catalog.create_database("shop", if_not_exists=True)
    with pytest.raises(InvalidRequest, match="so it cannot be"):
        catalog.create_database("shop")
    answers(server, f"POST {ALL}", there, there, bad)
    with pytest.raises(AlreadyExists, match=r"shop\.orders"):
        catalog.create_table(ORDERS, SCHEMA)
    assert catalog.create_table(ORDERS, SCHEMA, if_not_exists=True).path == f"{tmp_path}/x"
    with pytest.raises(InvalidSchema, match="so it cannot be"):
        catalog.create_table(ORDERS, SCHEMA)
    with pytest.raises(NotFound, match="database 'shup' does not exist in '.*', did you mean 'shop'"):
        catalog.create_table(Identifier("shup", "t"), SCHEMA)
    with pytest.raises(InvalidRequest, match="has 1 tables"):
        catalog.drop_database("shop")
    with pytest.raises(NotFound, match="did you mean 'shop'"):
        catalog.drop_database("shup")
    catalog.drop_database("shup", if_exists=True)
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        catalog.drop_table(Identifier("shop", "order"))
    catalog.drop_table(Identifier("shop", "order"), if_exists=True)
    answers(server, f"DELETE {ONE}", bad)
    with pytest.raises(InvalidRequest, match=r"table shop\.orders: so it cannot be"):
        catalog.drop_table(ORDERS, if_exists=True)
    answers(server, f"POST {ONE}", bad)
    with pytest.raises(InvalidSchema, match="so it cannot be"):
        catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])
    answers(server, "POST /v1/p/tables/rename", there, (404, {}), bad)
    for error in (AlreadyExists, NotFound, InvalidRequest):
        with pytest.raises(error):
            catalog.rename_table(ORDERS, Identifier("shop", "sold"))


@pytest.mark.parametrize("comes", ["at once", "late", "never"])
def test_a_table_whose_creation_has_no_answer_is_searched(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path, comes: str
) -> None:
    there = shown(f"{tmp_path}/shop.db/orders")
    answers(server, f"POST {ALL}", (500, {}), (409, {}) if comes == "late" else (500, {}))
    answers(server, f"GET {ONE}", *([(404, {})] if comes == "late" else []), (404, {}) if comes == "never" else there)
    if comes == "never":
        with pytest.raises(CommitUnknown, match="outcome unknown"):
            catalog.create_table(ORDERS, SCHEMA)
    else:
        assert catalog.create_table(ORDERS, SCHEMA).schema == SCHEMA
        other = new_schema([("id", BIGINT, None)], ["id"], [], {"bucket": "2"})
        answers(server, f"POST {ALL}", (500, {}))
        with pytest.raises(AlreadyExists):
            catalog.create_table(ORDERS, other)
    assert len(changes_of(server)) == {"at once": 2, "late": 3, "never": 3}[comes]


@pytest.mark.parametrize("then", ["nothing", "another table"])
def test_a_created_table_that_is_renamed_at_once_is_not_taken_for_the_next_one_of_its_name(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path, then: str
) -> None:
    other = shown(f"{tmp_path}/elsewhere/orders")
    other["schema"]["options"][TABLE_ID] = "other"
    answers(server, f"POST {ALL}", {})
    answers(server, f"GET {ONE}", (404, {}) if then == "nothing" else other)
    log = {"log-store.type": "embedded", TABLE_ID: "own"}
    with pytest.raises(CommitUnknown, match="renamed or dropped meanwhile"):
        catalog.create_table(ORDERS, replace(SCHEMA, options={**SCHEMA.options, **log}))
    assert [method for method, _, _ in changes_of(server)] == ["POST"], "the other table is not dropped"


def test_the_default_database_is_made_when_it_is_needed(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path
) -> None:
    answers(server, "POST /v1/p/databases", {})
    answers(server, "POST /v1/p/databases/default/tables", {})
    answers(server, "GET /v1/p/databases/default/tables/t", shown(f"{tmp_path}/default.db/t"))
    catalog.create_table(Identifier("default", "t"), SCHEMA)
    assert [path for _, path, _ in changes_of(server)] == ["/databases", "/databases/default/tables"]


def test_an_embedded_log_is_refused_where_the_server_puts_tables_elsewhere(
    server: ScriptedHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warehouse").mkdir()
    options = {"catalog.type": "rest", "catalog.uri": server.url, "catalog.warehouse": "lake"}
    lake = connect(warehouse=str(tmp_path / "warehouse"), catalog_options=options)
    place = shown(f"{tmp_path}/warehouse/0c9")
    place["schema"]["options"][TABLE_ID] = "own"
    monkeypatch.setattr(create, "new_uuid", lambda: "own")
    answers(server, f"GET {ONE}", (404, {}), (404, {}), place)
    answers(server, f"POST {ALL}", {})
    answers(server, f"DELETE {ONE}", {})
    answers(server, "POST /v1/p/databases", {})
    statement = "create table shop.orders (id bigint, primary key (id)) using lakelog tblproperties"
    with pytest.raises(UnsupportedFeature, match="its log is at"):
        lake.sql(f"{statement} ('log-store.enabled' = 'true')")
    assert [method for method, _, _ in changes_of(server)] == ["POST", "POST", "DELETE"]


def test_a_commit_sends_the_snapshot_and_its_changes(catalog: RestCatalog, server: ScriptedHttp) -> None:
    owner = RestOwner(catalog._api, "shop", "orders", "uuid-1")
    answers(server, f"POST {ONE}/commit", {"success": True}, {"success": False}, {})
    change = PartitionChange({"day": "1"}, 3, 200, 1, 99, 2)
    assert owner.commit("main", b'{"id": 1}', [change]) is True
    assert owner.commit("main", b'{"id": 1}', []) is False
    assert owner.commit("main", b'{"id": 1}', []) is False, "what is not said did not happen"
    statistics = {
        "spec": {"day": "1"},
        "recordCount": 3,
        "fileSizeInBytes": 200,
        "fileCount": 1,
        "lastFileCreationTime": 99,
        "totalBuckets": 2,
    }
    assert changes_of(server)[0][2] == {"tableId": "uuid-1", "snapshot": {"id": 1}, "statistics": [statistics]}
    answers(server, f"POST {ONE}%24branch_dev/commit", {"success": True})
    assert owner.commit("dev", b"{}", []) is True
    for given, error in ((404, TableReplaced), (409, CommitConflict), (400, InvalidRequest), (500, CommitUnknown)):
        answers(server, f"POST {ONE}/commit", (given, {"message": "no"}))
        with pytest.raises(error):
            owner.commit("main", b"{}", [])


def test_only_changes_that_change_something_are_sent(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path
) -> None:
    answers(server, f"GET {ONE}", shown(f"{tmp_path}/x"))
    assert (
        catalog.alter_table(ORDERS, [DropColumn(("gone",), if_exists=True), SetOption("bucket", "2")]).schema == SCHEMA
    )
    assert changes_of(server) == []
    answers(server, f"POST {ONE}", {})
    catalog.alter_table(ORDERS, [DropColumn(("gone",), if_exists=True), DropColumn(("n",))])
    assert changes_of(server)[-1][2] == {"changes": [{"action": "dropColumn", "fieldNames": ["n"]}]}


def test_a_listing_of_tables_in_a_session_includes_the_server(tmp_path: Path) -> None:
    served = CatalogConfig("/w", {"s3.region": "r"}, {"catalog.type": "rest", "catalog.uri": "https://h"})
    assert served.of_tables() == CatalogConfig("/w", served.storage, {**served.catalog, "catalog.warehouse": "/w"})
    named = CatalogConfig("/w", {}, {**served.catalog, "catalog.warehouse": "lake"})
    assert named.of_tables() == named
    rows = CatalogConfig("/w", {"s3.region": "r"}, {"catalog.type": "sql", "catalog.uri": "sqlite://"})
    assert rows.of_tables() == CatalogConfig("/w", {"s3.region": "r"})


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_rule_that_only_the_server_knows_counts(
    catalog: RestCatalog, server: ScriptedHttp, tmp_path: Path, is_stored: bool
) -> None:
    path = f"{tmp_path}/shop.db/orders"
    if is_stored:
        LocalFileIO().write(f"{path}/schema/schema-0", SCHEMA.to_json())
    told = shown(f"file:{path}")
    told["schema"]["options"]["query-auth.enabled"] = "true"
    answers(server, f"GET {ONE}", told)
    with pytest.raises(UnsupportedFeature, match=r"table shop\.orders has 'query-auth\.enabled'"):
        open_table(catalog, ORDERS)
