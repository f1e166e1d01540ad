"""What a person sees first: 200 tables of which five are sick, on a desktop and on a phone; plots, editor, copying."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import Open
from dashboards import RunningDashboard, running_dashboard
from lakelog.io.quantities import format_bytes, format_duration
from sick_tables import SICK, make_sick_tables

TABLES = 200
_PICTURES = os.environ.get("LAKELOG_TEST_PICTURES")
"""A directory for pictures of the pages, to look at."""


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDashboard]:
    warehouse = tmp_path_factory.mktemp("sick")
    make_sick_tables(warehouse, TABLES)
    with running_dashboard(warehouse) as found:
        yield found


@pytest.fixture
def overview(dashboard: RunningDashboard, open_page: Open) -> RunningDashboard:
    page = open_page()
    page.goto(dashboard.address)
    expect(page.locator(".findings li")).to_have_count(len(SICK), timeout=120_000)
    return dashboard


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_names_every_sick_table_and_what_to_do(
    overview: RunningDashboard, open_page: Open, theme: str, width: int, height: int
) -> None:
    page = open_page(color_scheme=theme, viewport={"width": width, "height": height})
    page.goto(overview.address)
    for table, finding in SICK.items():
        line = page.locator(".findings li", has_text=table)
        expect(line).to_contain_text(finding)
        for part in (line.get_by_role("link"), line.locator("code")):
            box = part.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height, table
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    if _PICTURES:
        page.screenshot(path=Path(_PICTURES) / f"overview-{width}-{theme}.png")


def test_the_list_stays_where_it_was_scrolled_to(overview: RunningDashboard, open_page: Open) -> None:
    page = open_page(viewport={"width": 1400, "height": 900})
    page.goto(overview.address)
    expect(page.locator("#list tbody tr")).to_have_count(100)
    page.evaluate("scrollTo(0, 2500)")
    for _ in range(2):
        with page.expect_response(lambda answer: "offset=0" in answer.url):
            pass
    page.wait_for_function("document.querySelectorAll('#list tbody tr').length === 100")
    assert abs(page.evaluate("scrollY") - 2500) < 10  # the heights of the rows before it may change by a pixel


def test_plots_reach_over_the_range_that_was_chosen(overview: RunningDashboard, open_page: Open) -> None:
    page = open_page(bypass_csp=True)  # the test looks into the plots
    page.goto(overview.address)
    plot = page.locator("[data-plot='/api/v1/plots/size']")
    expect(plot.locator("canvas")).to_be_visible(timeout=60_000)
    for hours in (1, 24):
        with page.expect_response(f"**/plots/size?hours={hours}"):
            page.locator(f"[data-hours='{hours}']").click()
        scale = "document.querySelector(`[data-plot='/api/v1/plots/size']`).plot.scales.x"
        page.wait_for_function(f"Math.abs({scale}.max - {scale}.min - {hours * 3600}) < 60")
    expect(plot.locator(".last")).to_contain_text("data files:")
    marks = page.evaluate(
        "(() => { const p = document.querySelector(`[data-plot='/api/v1/plots/freshness']`).plot;"
        " return p ? p.axes[1]._values : [] })()"
    )
    assert len(marks) == len(set(marks))  # no mark twice


def test_the_editor_highlights_and_completes(overview: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.goto(f"{overview.address}/terminal")
    expect(page.get_by_label("Database").locator("option")).to_have_text(["Default database", "shop"])
    editor = page.get_by_label("Statements")
    editor.fill("select * from shop.table_00")
    page.keyboard.press("Control+Space")
    expect(page.locator(".cm-tooltip-autocomplete li").first).to_contain_text("table_00")
    page.keyboard.press("Escape")
    expect(page.locator(".cm-line span").first).to_have_css("font-weight", "600")  # a keyword
    expect(page.locator(".cm-lineNumbers .cm-gutterElement", has_text="1")).to_be_visible()


def test_a_compaction_is_started_and_seen_from_the_overview(overview: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    page.goto(overview.address)
    page.on("dialog", lambda asked: asked.accept())
    line = page.locator(".findings li", has_text="shop.visits")
    line.get_by_role("button", name="Compact").click()
    expect(line).to_have_count(0, timeout=600_000)  # it was needed no longer


def test_the_script_of_the_pages_writes_quantities_as_everything_else_does(
    dashboard: RunningDashboard, open_page: Open
) -> None:
    near = [0, *(10**power * first for power in range(18) for first in (1, 1.05, 1.25, 4.5, 9.94, 9.95, 9.996))]
    times = [
        -5,
        *(end + by for end in (1e3, 1e4, 6e4, 12e4, 6e5, 72e5, 36e6, 1728e5, 864e6) for by in (-600, -1, 0, 450)),
    ]
    page = open_page()
    page.goto(dashboard.address)
    written = page.evaluate(
        "async ([sizes, times]) => { const words = await import('/static/words.js');"
        " return [sizes.map(words.size), times.map(words.duration)] }",
        [near, times],
    )
    assert written == [[format_bytes(count) for count in near], [format_duration(millis) for millis in times]]
