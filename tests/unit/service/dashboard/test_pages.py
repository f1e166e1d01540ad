"""Every page and every answer of the API, on real tables, without a browser."""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from dashboards import RunningDashboard, running_dashboard
from lakelog import connect
from lakelog.service.dashboard.render import STATIC, ago, count, duration, size
from lakelog.service.dashboard.time_series import PLOTS, Sample, StatsHistory

TABS = ("columns", "snapshots", "files", "log", "rows", "runs")
HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    """Two tables: one with a log and rows, one empty."""
    warehouse = tmp_path_factory.mktemp("shop")
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql(
            "create table shop.orders (id bigint, item string, primary key (id)) tblproperties "
            "('bucket' = '2', 'log-store.enabled' = 'true', 'log-store.allow-plaintext' = 'true', "
            "'properties.sasl.password' = 'hunter2-hunter2')"
        )
        lake.sql("create table shop.nothing (id bigint)")
        for start in (0, 10):
            lake.table("shop.orders").write(
                pa.table({"id": range(start, start + 10), "item": ["<script>alert(1)</script>"] * 10})
            )
        with running_dashboard(warehouse) as dashboard:
            until(lambda: answer(dashboard, "/api/v1/tables")["looked"] == 2)
            yield dashboard


def until(holds: object) -> None:
    """Waits for what the watcher does in its own time."""
    assert callable(holds)
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def answer(dashboard: RunningDashboard, path: str) -> dict:  # type: ignore[type-arg]
    with dashboard.client() as client:
        found = client.get(path)
        assert found.status_code == 200, found.text
        return found.json()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/catalogs",
        "/log",
        "/terminal",
        "/optimizing",
        "/settings",
        "/views",
        "/tables/shop.orders",
        "/tables/shop.nothing",
    ]
    + [f"/tables/{name}/{tab}" for name in ("shop.orders", "shop.nothing") for tab in TABS],
)
def test_every_page_is_drawn_and_names_its_json(shop: RunningDashboard, path: str) -> None:
    with shop.client(**HTML) as client:
        page = client.get(path)
        assert page.status_code == 200, page.text
        assert "text/html" in page.headers["content-type"]
        same = page.text.split('<a href="/api/v1/')[1].split('"')[0]
        assert client.get(f"/api/v1/{same}").status_code in (200, 404)  # a table without a log has no JSON of it
        assert "<script>alert" not in page.text
        assert "hunter2" not in page.text
        part = client.get(path, headers={"hx-request": "true"})
        assert part.status_code == 200


def test_statistics_are_those_of_the_table(shop: RunningDashboard) -> None:
    found = {line["name"]: line for line in answer(shop, "/api/v1/tables")["tables"]}
    orders = found["shop.orders"]
    assert (orders["rows"], orders["has_log"], orders["is_keyed"], orders["lag"]) == (20, True, True, 0)
    assert found["shop.nothing"]["rows"] == 0
    assert answer(shop, "/api/v1/tables?search=NOTHING")["matching"] == 1
    table = answer(shop, "/api/v1/tables/shop.orders")
    assert [column["name"] for column in table["columns"]] == ["id", "item"]
    assert table["options"]["properties.sasl.password"] == "******"
    log = answer(shop, "/api/v1/tables/shop.orders/log")["log"]
    assert len(log["buckets"]) == 2
    assert all(bucket["applied"] <= bucket["end"] for bucket in log["buckets"])


def test_snapshots_come_page_by_page(shop: RunningDashboard) -> None:
    newest = answer(shop, "/api/v1/tables/shop.orders/snapshots?limit=1")
    assert newest["more"]
    version = newest["rows"][0][0]
    older = answer(shop, f"/api/v1/tables/shop.orders/snapshots?limit=1&before={version}")
    assert older["rows"][0][0] == version - 1


def test_rows_are_shown(shop: RunningDashboard) -> None:
    rows = answer(shop, "/api/v1/tables/shop.orders/rows?limit=5")
    assert rows["columns"] == ["id", "item"]
    assert len(rows["rows"]) == 5
    assert rows["more"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/v1/tables/shop.ordres", 404, "orders"),
        ("/api/v1/tables/shop.orders$snapshots", 400, "is a system table"),
        ("/api/v1/tables/shop.nothing/log", 404, "has no log"),
        ("/api/v1/tables/shop.nothing/tail", 400, "log-store.enabled"),
        ("/api/v1/tables/shop.orders/plots/nonsense", 400, "known: freshness"),
        ("/api/v1/nothing", 404, "Not Found"),
        ("/api/v1/terminal/texts/7", 404, "no statement"),
        ("/api/v1/tables?limit=100000", 400, "limit"),
    ],
)
def test_wrong_requests_get_a_status_and_a_reason(shop: RunningDashboard, path: str, status: int, words: str) -> None:
    with shop.client() as client:
        found = client.get(path)
    assert found.status_code == status
    assert words in found.text


def test_the_tail_brings_rows_as_they_come(shop: RunningDashboard, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = answer(shop, "/api/v1/tables/shop.orders")["path"].removeprefix("file:")
    warehouse = Path(place).parents[1]
    with shop.client() as client, client.stream("GET", "/api/v1/tables/shop.orders/tail") as tail:
        lines = tail.iter_lines()
        assert next(lines) == ": connected"
        with connect(warehouse=str(warehouse)) as lake, lake.table("shop.orders").writer() as writer:
            writer.write(pa.table({"id": [99], "item": ["new"]}))
        data = next(line for line in lines if line.startswith("data: "))
    told = json.loads(data.removeprefix("data: "))
    assert told["rows"][0][:2] == [99, "new"]


def test_every_route_says_the_role_that_it_needs(shop: RunningDashboard) -> None:
    described = answer(shop, "/api/v1/openapi.json")
    assert len(described["paths"]) >= 20
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            assert told.get("description"), f"{method} {path} is not described"


def test_the_libraries_are_those_that_were_taken() -> None:
    sums = (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines()
    assert len(sums) >= 11
    for line in sums:
        digest, name = line.split()
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name


def test_samples_are_kept_and_thinned(tmp_path: Path) -> None:
    history = StatsHistory(tmp_path / "f.sqlite")
    now = int(time.time() * 1000)
    hours = 3_600_000
    history.add([Sample("t", now - 5 * hours + n * 1000, rows=n, log_end=n * 10) for n in range(2_500)])
    history.add([Sample("t", now - 1000, rows=7, log_end=99)])
    lines = history.plot("t", "rows", now - 10 * hours)
    assert 25 <= len(lines.times_ms) <= 60  # one a minute at most, where the plot has so many points
    assert lines.values[0][-1] == 7
    rates = history.plot("t", "throughput", now - 10 * hours)
    assert rates.values[0][0] == pytest.approx(10)
    assert rates.values[0][-1] is None  # the log was made again
    assert {"freshness", "lag", "size", "files"} <= set(PLOTS)
    history.close()


def test_words() -> None:
    assert [duration(ms) for ms in (None, 1500)] == ["–", "1.5 s"]
    assert count(1_234_567) == "1,234,567"
    assert [size(count) for count in (None, 1_500)] == ["–", "1.5 kB"]
    assert ago(None) == "never"


def test_a_table_with_a_dot_in_its_name_has_its_pages(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int)")
        Path(lake.table("d.t").path).rename(tmp_path / "d.db" / "a.b")  # another engine allows it
    with running_dashboard(tmp_path) as dashboard, dashboard.client() as client:
        deadline = time.monotonic() + 120
        while "a.b" not in (page := client.get("/", headers={"accept": "text/html"}).text):
            assert time.monotonic() < deadline
        (link,) = set(re.findall(r'href="(/tables/[^"/]*a\.b[^"/]*)"', page))
        for tab in ("", "/columns", "/snapshots", "/files", "/rows", "/runs"):
            assert client.get(f"{link}{tab}", headers={"accept": "text/html"}).status_code == 200, tab
        assert client.get(f"/api/v1{link}").json()["columns"][0]["name"] == "id"
        state = tmp_path / "_state"
        assert {oct(file.stat().st_mode & 0o777) for file in state.glob("figures.sqlite*")} == {"0o600"}


def test_numbers_of_any_length_are_answered(shop: RunningDashboard) -> None:
    long = "9" * 5_000
    with shop.client() as client:
        for path in ("log/records?bucket=0&start=offset&at=" + "9" * 40, f"snapshots?before={long[:40]}"):
            assert client.get(f"/api/v1/tables/shop.orders/{path}").status_code == 200
        text = client.post("/api/v1/terminal/texts", json={"text": "show tables in shop"}).json()["id"]
        for last in (long.encode(), b"\xb2"):
            with client.stream(
                "GET", f"/api/v1/terminal/texts/{text}/events", headers={"last-event-id": last}
            ) as found:
                assert found.status_code == 200
        client.delete("/api/v1/terminal")


def test_a_path_with_a_slash_more_leads_to_no_other_address(shop: RunningDashboard) -> None:
    with shop.client(**HTML) as client:
        for path in ("/log/", "/login/", "/api/v1/tables/"):
            assert client.get(path).status_code == 404, "behind a proxy, the redirect would leave TLS"


@pytest.mark.parametrize("name", ["a#b", "a?b", "a%41b", "a;b", 'a"b', "a b", "größe"])
def test_a_page_links_the_json_of_a_table_with_any_name(tmp_path: Path, name: str) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql(f"create database d; create table d.`{name}` (id int)")
    with running_dashboard(tmp_path) as dashboard, dashboard.client(**HTML) as client:
        page = client.get(f"/tables/{quote('d.' + name)}/columns")
        assert page.status_code == 200, page.text
        (link,) = set(re.findall(r'href="(/api/v1/tables/[^"]+)"', page.text))
        assert client.get(html.unescape(link)).json()["name"] == f"d.{name}"
