"""The page of materialized views: what reads what, how far each view is behind, and what has to be done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dashboards import RunningDashboard, running_dashboard
from lakelog import connect
from lakelog.lake import Lake
from lakelog.service.dashboard.view_graph import Node, ViewGraph, view_graph
from lakelog.service.dashboard.watcher import Watched
from lakelog.table.health.health import TableHealth
from lakelog.table.health.score import Finding
from lakelog.table.health.stats import TableStats, ViewStats
from lakelog.table.views.sources import BEHIND, CURRENT, DROPPED, SourceState

NOW = 1_000_000


def watched(name: str, *sources: SourceState, finding: Finding | None = None) -> Watched:
    view = ViewStats("select 1", "on commit", 0, False, sources) if sources else None
    findings = () if finding is None else (finding,)
    return Watched(name, NOW, TableHealth(name, 100, (), (), (), TableStats(name, NOW, True, view=view), findings))


def current(name: str) -> SourceState:
    return SourceState(name, CURRENT, 1, 1, 0)


def apart(one: Node, other: Node) -> bool:
    return one.x != other.x or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_a_view_is_right_of_all_that_it_reads_and_no_node_covers_another() -> None:
    tables = [watched(name) for name in ("db.a", "db.b", "db.unread")]
    joined = watched("db.joined", *(current(name) for name in ("db.a", "db.b", "db.c", "db.d")))
    found = view_graph([*tables, joined, watched("db.top", current("db.joined"), current("db.a"))])
    nodes = {node.name: node for node in found.nodes}
    assert set(nodes) == {"db.a", "db.b", "db.c", "db.d", "db.joined", "db.top"}, "tables that no view reads are not"
    assert len(found.edges) == 6
    assert all(nodes[edge.source].x + nodes[edge.source].width < nodes[edge.view].x for edge in found.edges)
    assert all(apart(one, other) for one in found.nodes for other in found.nodes if one is not other)
    assert all(node.x + node.width <= found.width and node.y + node.height <= found.height for node in found.nodes)
    ends = [(edge.view, edge.y) for edge in found.edges]
    assert len(set(ends)) == len(ends), "each arrow has its own end, so that its words can be read"
    assert [(nodes[name].is_known, nodes[name].is_bad) for name in ("db.a", "db.c")] == [(True, False), (False, True)]


def test_views_with_a_fault_are_first_and_edges_say_how_far_they_are_behind() -> None:
    late = SourceState("db.a", BEHIND, 3, 5, 1_200, NOW - 90_000)
    lost = watched(
        "db.z", SourceState("db.gone", DROPPED, 3), finding=Finding("view-source", "why", "ALTER MATERIALIZED VIEW")
    )
    found = view_graph(
        [watched("db.a"), watched("db.v", late, current("db.b")), watched("db.w", current("db.a")), lost]
    )
    assert [(line.name, line.state, line.is_bad) for line in found.views] == [
        ("db.z", "source lost", True),
        ("db.v", "behind", False),
        ("db.w", "current", False),
    ]
    assert (found.bad, found.lag_ms) == (1, 90_000)
    labels = {(edge.source, edge.view): (edge.label, edge.is_bad) for edge in found.edges}
    assert labels["db.a", "db.v"] == ("1,200 behind, 90 s", False)
    assert labels["db.a", "db.w"] == ("current", False)
    assert labels["db.gone", "db.z"] == ("dropped", True)


def test_a_lake_without_views_has_an_empty_graph() -> None:
    assert view_graph([watched("db.a")]) == ViewGraph([], 0, 0, None, [], [], 8, 8)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, RunningDashboard]]:
    warehouse: Path = tmp_path_factory.mktemp("views")
    with connect(warehouse=str(warehouse)) as found:
        found.sql("create table shop.orders (id bigint, item string, primary key (id))")
        found.write(pa.table({"id": [1], "item": ["<script>alert(1)</script>"]}), "shop.orders")
        found.sql(
            "create materialized view shop.items refresh manual as "
            "select item, count(*) as orders from shop.orders where item <> '<b>' group by item"
        )
        with running_dashboard(warehouse) as dashboard:
            yield found, dashboard


def test_the_page_and_its_json_show_views_tables_and_lag(lake: tuple[Lake, RunningDashboard]) -> None:
    with lake[1].client(accept="text/html") as client:
        client.get("/tables/shop.items").raise_for_status()  # inspects it now
        client.get("/tables/shop.orders").raise_for_status()
        page = client.get("/views").text
        (line,) = client.get("/api/v1/views").json()["views"]
    assert set(re.findall(r'<a href="(/tables/[^"]+)" aria-label', page)) == {
        "/tables/shop.items",
        "/tables/shop.orders",
    }
    assert "style=" not in page, "the content security policy allows no style in a page"
    assert (line["state"], line["computed_by"], line["sources"][0]["name"]) == ("current", "DuckDB", "shop.orders")


def test_the_page_of_a_view_shows_its_query_and_position(lake: tuple[Lake, RunningDashboard]) -> None:
    with lake[1].client(accept="text/html") as client:
        page = client.get("/tables/shop.items").text
        assert "from shop.orders where item &lt;&gt; &#39;&lt;b&gt;&#39; group by item" in page
        assert 'aria-label="sources of the view"' in page
        assert "Refreshed manual, computed by DuckDB" in page
        assert "Materialized view" not in client.get("/tables/shop.orders").text
        options = client.get("/api/v1/tables/shop.items").json()["options"]
    assert "materialized-view" not in options
