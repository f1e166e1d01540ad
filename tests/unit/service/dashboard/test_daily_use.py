"""What daily users ask of a table: what happened to a row, which rows have a value, all of them as a file, its tags."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from dashboards import PASSWORD, RunningDashboard, csrf_of, running_dashboard
from lakelog import connect

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.decimal128(10, 2))])
LOG = {"bucket": "1", "log-store.enabled": "true"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders of which number 42 was written twice and deleted, and whose definition has changed."""
    place = tmp_path_factory.mktemp("daily")
    with connect(place) as lake:
        for options, name in ((LOG, "shop.orders"), ({"bucket": "1"}, "shop.files")):
            table = lake.create_table(name, COLUMNS, primary_key=["id"], options=options)
            for rows in ([(1, "Oslo"), (42, "Bergen")], [(42, "=SUM(1)")]):
                table.write(pa.table([[i for i, _ in rows], [c for _, c in rows], [1] * len(rows)], COLUMNS.names))
            table.write(pa.table({"id": [42], "_row_kind": ["-D"]}), missing="null")
        table = lake.table("shop.orders")
        table.add_column("note", "string")
        table.rename_column("city", "town")
    return place


@pytest.fixture(scope="module")
def dashboard(warehouse: Path, users_file: Path) -> Iterator[RunningDashboard]:
    with running_dashboard(warehouse, users_file=users_file) as running:
        yield running


@pytest.fixture
def ada(dashboard: RunningDashboard) -> Iterator[httpx.Client]:
    """An admin."""
    with dashboard.log_in("ada", PASSWORD) as client:
        client.headers["x-csrf-token"] = csrf_of(client.get("/"))
        yield client


def history(client: httpx.Client, table: str, where: str) -> list[dict[str, Any]]:
    found = client.get(f"/api/v1/tables/{table}/history", params={"where": where}).json()
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def test_the_history_of_a_row_has_each_change_of_both_stores_with_writer_epoch_and_time(ada: httpx.Client) -> None:
    changes = history(ada, "shop.orders", "id = 42")
    for store, place in (("log", "offset"), ("files", "snapshot")):
        lines = [line for line in changes if line["store"] == store]
        assert [(line["change"], line["town"]) for line in lines][1:] == [("+I", "=SUM(1)"), ("+I", "Bergen")]
        assert lines[0]["change"] == "-D"
        assert all(line["writer"] and line["epoch"] == 0 and line["place"].startswith(place) for line in lines)
    assert [line["time"] for line in changes] == sorted((line["time"] for line in changes), reverse=True)
    assert {line["store"] for line in history(ada, "shop.files", "id = 42")} == {"files"}
    assert history(ada, "shop.orders", "id = 7") == []
    page = ada.get("/tables/shop.orders/history", params={"where": "idd = 1"})
    assert "did you mean &#39;id&#39;" in page.text
    assert "What happened to a row" in ada.get("/tables/shop.orders/history").text


def test_values_are_found_and_all_matching_rows_are_a_file(ada: httpx.Client) -> None:
    found = ada.get("/api/v1/tables/shop.orders/rows", params={"where": "town like 'Os%'"}).json()
    assert [row[0] for row in found["rows"]] == [1] and found["kinds"][2] == "number"
    records = ada.get("/api/v1/tables/shop.orders/log/records", params={"bucket": 0, "text": "Bergen"}).json()
    assert len(records["rows"]) == 1
    lines = ada.get("/api/v1/tables/shop.files/export", params={"format": "jsonl"})
    assert lines.text == '{"id":1,"city":"Oslo","amount":"1.00"}\n'
    table = ada.get("/api/v1/tables/shop.orders/export", params={"where": "id >= 1"})
    assert table.text.splitlines() == ["id,town,amount,note", "1,Oslo,1.00,"]
    assert ada.get("/api/v1/tables/shop.orders/export", params={"where": "nope = 1"}).status_code == 400
    texts = [one["text"] for one in ada.get("/api/v1/terminal/audit").json() if one["kind"] == "export"]
    assert texts == ["export shop.orders as csv where id >= 1", "export shop.files as jsonl"]


def test_the_definition_tells_what_has_changed(ada: httpx.Client) -> None:
    changes = [one["changes"] for one in ada.get("/api/v1/tables/shop.orders/definitions").json()]
    assert changes == [["column city renamed to town"], ["column note string added"], ["created with 3 columns"]]
    assert "column city renamed to town" in ada.get("/tables/shop.orders/columns").text


def ended(client: httpx.Client, kind: str, **arguments: str) -> dict[str, Any]:
    begun = client.post(
        "/api/v1/actions", json={"table": "shop.files", "kind": kind, "arguments": arguments}
    ).raise_for_status()
    end = time.monotonic() + 120
    while (now := client.get(f"/api/v1/actions/{begun.json()['id']}").json())["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    return dict(now)


def test_tags_branches_and_readers_are_made_moved_and_dropped(
    dashboard: RunningDashboard, ada: httpx.Client, warehouse: Path
) -> None:
    for kind, arguments in (
        ("create_tag", {"tag": "it's", "snapshot": "1"}),
        ("create_branch", {"branch": "dev", "tag": "it's"}),
        ("reset_consumer", {"consumer_id": "job", "next_snapshot_id": "2"}),
    ):
        assert ended(ada, kind, **arguments)["state"] == "done"
    with connect(warehouse) as lake:
        table = lake.table("shop.files")
        assert [(tag.name, tag.snapshot.id) for tag in table.tags()] == [("it's", 1)]
        assert table.branches() == ["dev"]
        assert table.logical.store.consumers.position("job") == 2
    assert 'data-kind="delete_tag"' in ada.get("/tables/shop.files/files?kind=tags").text
    ended(ada, "delete_branch", branch="dev")
    ended(ada, "delete_tag", tag="it's")
    ended(ada, "reset_consumer", consumer_id="job")
    with connect(warehouse) as lake:
        table = lake.table("shop.files")
        assert not table.tags() and not table.branches() and table.logical.store.consumers.position("job") is None
    failed = ended(ada, "delete_tag", tag="none")
    assert failed["state"] == "failed" and "none" in failed["detail"]
    audit = [one["text"] for one in ada.get("/api/v1/terminal/audit").json() if one["kind"] == "action"]
    assert "create_tag shop.files tag=it's snapshot=1" in audit
    assert (
        ada.post(
            "/api/v1/actions", json={"table": "shop.files", "kind": "rollback", "arguments": {"tag": "x"}}
        ).status_code
        == 400
    )  # no action of a page
    with dashboard.log_in("wanda", PASSWORD) as wanda:
        page = wanda.get("/tables/shop.files/files?kind=tags")
        asked = {"table": "shop.files", "kind": "create_tag", "arguments": {"tag": "w"}}
        assert "data-act" not in page.text
        answer = wanda.post("/api/v1/actions", json=asked, headers={"x-csrf-token": csrf_of(page)})
        assert answer.status_code == 403


def test_saved_queries_are_of_their_user_and_have_no_secret(dashboard: RunningDashboard, ada: httpx.Client) -> None:
    assert ada.put("/api/v1/terminal/queries/daily", json={"text": "select 1"}).status_code == 204
    assert ada.get("/api/v1/terminal/queries").json() == {"daily": "select 1"}
    secret = "create catalog c with ('s3.secret-key' = 'HUNTER2')"
    assert ada.put("/api/v1/terminal/queries/other", json={"text": secret}).status_code == 400
    with dashboard.log_in("wanda", PASSWORD) as wanda:
        assert wanda.get("/api/v1/terminal/queries").json() == {}
    assert ada.delete("/api/v1/terminal/queries/daily").status_code == 204
    assert ada.delete("/api/v1/terminal/queries/daily").status_code == 404


def test_the_list_is_sorted_by_its_heads_and_filtered_by_database(ada: httpx.Client) -> None:
    end = time.monotonic() + 120
    while ada.get("/api/v1/tables").json()["looked"] < 2:
        assert time.monotonic() < end
        time.sleep(0.05)

    def names(**asked: str) -> list[str]:
        return [one["name"] for one in ada.get("/api/v1/tables", params=asked).json()["tables"]]

    assert names(sort="name") == ["shop.files", "shop.orders"]
    assert names(sort="name", reverse="true") == ["shop.orders", "shop.files"]
    assert names(database="other") == [] and len(names(database="shop")) == 2
    page = ada.get("/", params={"sort": "name", "database": "shop"}).text
    assert 'aria-sort="ascending"' in page and "database=shop&amp;sort=name&amp;reverse=True" in page


def test_times_are_of_one_form_and_nothing_is_shown_that_is_never_there(ada: httpx.Client) -> None:
    page = ada.get("/tables/shop.files/snapshots").text
    assert " UTC</td>" in page and ">row versions<" in page and "watermark" not in page and "schema_id" not in page
    records = ada.get("/tables/shop.orders/log?bucket=0").text
    assert " UTC</td>" in records and "T00" not in records.split("<tbody>")[-1].split(" UTC")[0]
