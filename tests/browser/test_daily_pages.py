"""The pages of a table with a name of 180 characters, at two widths and in both themes, and what people click there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from browser.conftest import Open
from dashboards import RunningDashboard, running_dashboard
from lakelog import connect

LONG = "shop." + "n" * 180
TABS = ("", "/columns", "/snapshots", "/files?kind=tags", "/log?bucket=0", "/rows", "/history?where=id%3D1", "/runs")
_PICTURES = os.environ.get("LAKELOG_TEST_PICTURES")
"""A directory for pictures of the pages, to look at."""


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    place = tmp_path_factory.mktemp("long")
    columns = pa.schema([("id", pa.int64()), ("city", pa.string())])
    with connect(place) as lake:
        for name in (LONG, "shop.b", "other.c"):
            options = {"bucket": "1", "log-store.enabled": "true"}
            table = lake.create_table(name, columns, primary_key=["id"], options=options)
            for number in range(3):
                table.write(pa.table({"id": [1, number + 2], "city": ["v" * 300, str(number)]}))
    with running_dashboard(place) as found:
        yield found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_no_page_is_wider_than_the_screen(
    dashboard: RunningDashboard, open_page: Open, theme: str, width: int, height: int
) -> None:
    page = open_page(color_scheme=theme, viewport={"width": width, "height": height})
    pages = ["/", "/log", "/optimizing", "/catalogs", "/terminal", "/settings", *(f"/tables/{LONG}{t}" for t in TABS)]
    page.goto(dashboard.address)
    expect(page.locator("#list tbody tr")).to_have_count(3, timeout=120_000)
    for number, path in enumerate(pages):
        page.goto(dashboard.address + path)
        page.locator("h1").first.wait_for()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), path
        if _PICTURES:
            page.screenshot(path=Path(_PICTURES) / f"daily-{number}-{width}-{theme}.png", full_page=True)
    if width == 1400:
        page.goto(dashboard.address)  # the columns after the name stay on the screen
        box = page.locator("#list thead th", has_text="Size").bounding_box()
        assert box is not None and box["x"] + box["width"] <= width


def test_the_list_sorts_filters_and_says_so_in_the_address(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.goto(dashboard.address)
    names = page.locator("#list tbody td:first-child a")
    page.locator("#list thead").get_by_role("link", name="Table").click()
    expect(names).to_have_text(["other.c", "shop.b", LONG])
    page.locator("#list thead").get_by_role("link", name="Table").click()
    expect(names).to_have_text([LONG, "shop.b", "other.c"])
    page.get_by_label("Database").select_option("other")
    expect(names).to_have_text(["other.c"])
    page.reload()
    expect(names).to_have_text(["other.c"])


def test_the_range_of_plots_is_in_the_address(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page(bypass_csp=True)  # the test looks into the plots
    page.goto(f"{dashboard.address}/tables/shop.b")
    page.locator("[data-hours='24']").click()
    page.wait_for_url("**hours=24")
    page.reload()
    expect(page.locator("[data-hours='24']")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{dashboard.address}/tables/shop.b?from=1700000000000&to=1700003600000")
    scale = "document.querySelector('[data-plot$=score]').plot?.scales.x"
    page.wait_for_function(f"{scale} && {scale}.min === 1700000000 && {scale}.max === 1700003600", timeout=60_000)


def test_a_tag_is_made_and_dropped_on_its_page(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.on("dialog", lambda asked: asked.accept())
    page.goto(f"{dashboard.address}/tables/shop.b/files?kind=tags")
    page.get_by_label("Name of the new tag").fill("release")
    page.get_by_role("button", name="Create tag").click()
    line = page.locator("tbody tr", has_text="release")
    expect(line).to_be_visible(timeout=120_000)
    line.get_by_role("button", name="Delete").click()
    expect(line).to_contain_text("done", timeout=120_000)
    page.reload()
    expect(line).to_have_count(0)


def test_the_history_of_a_row_sorts_by_a_head(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.goto(f"{dashboard.address}/tables/shop.b/history")
    page.get_by_label("Condition").fill("id = 1")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_role("button", name="store").click()
    expect(page.locator("tbody tr td:nth-child(2)")).to_have_text(["files"] * 3 + ["log"] * 3)


def test_a_query_is_saved_and_opened_again(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.on("dialog", lambda asked: asked.accept("mine"))
    page.goto(f"{dashboard.address}/terminal")
    editor = page.get_by_label("Statements")
    editor.fill("select 41 + 1")
    page.get_by_role("button", name="Save", exact=True).click()
    saved = page.get_by_label("Saved queries")
    expect(saved).to_have_value("mine")
    editor.fill("")
    page.reload()
    expect(saved.locator("option")).to_have_count(2)
    saved.select_option("mine")
    expect(editor).to_have_text("select 41 + 1")
