"""What people do in the dashboard, in a real browser, on a real table with a real Spark behind the terminal."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, Route, StorageState, expect

from browser.conftest import Open
from dashboards import PASSWORD, TOKEN, RunningDashboard, running_dashboard
from lakelog import connect
from lakelog.service.access.users import Users
from lakelog.sql.runtime.statement import Privilege

LOG_TABLE = """create table walk.log_table (id int, name string, ts timestamp, primary key (id)) using arctic
tblproperties ('log-store.enabled' = 'true')"""
PAGES = ["/", "/catalogs", "/log", "/terminal", "/optimizing", "/settings", "/views", "/tables/db.log_table"]
PAGES += ["/tables/db.seen"]
PAGES += [f"/tables/db.log_table/{tab}" for tab in ("columns", "snapshots", "files", "log", "rows", "runs")]
_SPARK_MS = 180_000
"""Spark starts in the worker of a terminal with its first query."""
_STORED = "JSON.stringify(localStorage)"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walks")


@pytest.fixture(scope="module")
def users(warehouse: Path) -> Users:
    found = Users(warehouse / "_users")
    for name, right in (("rita", Privilege.READ), ("ada", Privilege.ADMIN)):
        found.put(name, right, PASSWORD)
    return found


@pytest.fixture(scope="module")
def dashboard(warehouse: Path, users: Users) -> Iterator[RunningDashboard]:
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create table db.log_table (id bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true')")
        lake.table("db.log_table").write(pa.table({"id": range(10)}))
        lake.sql("create materialized view db.seen refresh manual as select id from db.log_table where id > 3")
    with running_dashboard(warehouse, users_file=users.path, token=TOKEN) as found:
        yield found


def log_in(page: Page, dashboard: RunningDashboard, user: str, password: str, there: str = "/") -> None:
    page.goto(dashboard.address + there)
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


@pytest.fixture(scope="module")
def ada(browser: Browser, dashboard: RunningDashboard) -> StorageState:
    """The cookies of one session, whose terminal's Spark the walks share."""
    context = browser.new_context()
    log_in(context.new_page(), dashboard, "ada", PASSWORD)
    context.pages[0].get_by_role("heading", name="Overview").wait_for()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def walked(dashboard: RunningDashboard, warehouse: Path) -> None:
    """A table of the walks with two rows."""
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql("create database if not exists walk")
        lake.sql(LOG_TABLE.replace("log_table", "seeds").replace(" ts timestamp,", ""))
        lake.table("walk.seeds").write(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]}))


def run(page: Page, text: str) -> Locator:
    """Types a text into the terminal and runs it; the place of its results."""
    page.get_by_label("Statements").fill(text)
    page.keyboard.press("Control+Enter")
    return page.locator("[data-results] > div").first


def done(result: Locator, statements: int = 1) -> Locator:
    expect(result.locator("header b", has_text=re.compile("done|failed"))).to_have_count(statements, timeout=_SPARK_MS)
    return result


def test_a_table_is_created_filled_and_queried(dashboard: RunningDashboard, open_page: Open, ada: StorageState) -> None:
    page = open_page(viewport={"width": 1280, "height": 900}, storage_state=ada)
    page.goto(f"{dashboard.address}/terminal")
    made = done(run(page, f"create database if not exists walk;\n{LOG_TABLE};\nshow tables in walk"), 3)
    expect(made).to_contain_text("log_table")
    rows = "(1, 'a', timestamp'2024-01-01'), (2, 'b', timestamp'2024-01-02')"
    seen = done(run(page, f"insert into walk.log_table values {rows};\nselect * from walk.log_table order by id"), 2)
    expect(seen).to_contain_text("num_inserted_rows")
    expect(seen.locator("tbody tr")).to_have_count(1 + 2)  # the counts of the insert, the rows of the select

    # an error is told at its place, and the place is found in the text
    wrong = done(run(page, "select id,\n  nope\nfrom walk.log_table"))
    wrong.get_by_role("button", name="line 2, column 3").click()
    selected = "document.querySelector('[data-editor]').shadowRoot.getSelection().toString()"
    assert page.evaluate(selected) == "nope"


def test_a_stream_from_the_log_shows_what_a_job_writes(
    dashboard: RunningDashboard, warehouse: Path, open_page: Open, ada: StorageState, walked: None
) -> None:
    page = open_page(storage_state=ada)
    page.goto(f"{dashboard.address}/terminal")
    live = run(page, "select * from walk.seeds /*+ OPTIONS('read.mode' = 'log') */")
    expect(live.locator("header b")).to_have_text("streaming", timeout=_SPARK_MS)
    with writing(warehouse, "walk.seeds"):
        expect(live.locator("tbody tr").nth(2)).to_be_visible(timeout=_SPARK_MS)
        live.get_by_role("button", name="Stop").click()
        expect(live.locator("header b")).not_to_have_text("streaming", timeout=_SPARK_MS)

        # the table's own page follows the log, too
        page.goto(f"{dashboard.address}/tables/walk.seeds/rows")
        page.get_by_role("button", name="Follow").click()
        expect(page.locator("[data-tail] tbody tr").first).to_be_visible()


@pytest.mark.parametrize(
    ("there", "script", "part"),
    [("/terminal", "terminal.js", "[type=submit]"), ("/tables/db.log_table/rows", "tail.js", "[data-switch]")],
)
def test_nothing_is_typed_or_clicked_before_the_script_of_a_page_runs(
    dashboard: RunningDashboard, open_page: Open, ada: StorageState, there: str, script: str, part: str
) -> None:
    page, held = open_page(storage_state=ada), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    with page.expect_event("request", lambda request: request.url.endswith(script)):
        page.route(f"**/{script}", hold)
        page.goto(dashboard.address + there)
    expect(page.locator(part)).to_be_disabled()
    held.pop().continue_()
    expect(page.locator(part)).to_be_enabled()


@contextmanager
def writing(warehouse: Path, table: str) -> Iterator[None]:
    """Somebody writes a row five times a second."""
    stop, failures = threading.Event(), list[BaseException]()

    def write() -> None:
        try:
            with connect(warehouse=str(warehouse)) as lake:
                for number in count(10):
                    lake.table(table).write(pa.table({"id": pa.array([number], pa.int32()), "name": ["new"]}))
                    if stop.wait(0.2):
                        return
        except BaseException as failure:
            failures.append(failure)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join(120)
    assert failures == []


def test_time_travel_a_cancelled_query_and_a_compaction(
    dashboard: RunningDashboard, open_page: Open, ada: StorageState, walked: None
) -> None:
    page = open_page(storage_state=ada)
    page.goto(f"{dashboard.address}/terminal")
    old = done(run(page, "select count(*) as n from walk.seeds version as of 1"))
    expect(old.locator("tbody td")).to_have_text("2")
    long = run(page, "select sum(a.id * b.id) from range(100000000) a join range(10000000) b on a.id % 3 = b.id % 5")
    expect(long.locator("header b")).to_have_text("running", timeout=_SPARK_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(long.locator("header b")).to_have_text("cancelled", timeout=_SPARK_MS)
    again = done(run(page, "call sys.compact(table => 'walk.seeds')"))
    expect(again.locator("header b")).to_have_text("done")

    # history appends and overwrites nothing
    page.get_by_label("Statements").fill("show tables")
    page.get_by_label("History").select_option(index=1)
    expect(page.get_by_label("Statements").locator(".cm-line")).to_have_text(
        ["show tables;", "call sys.compact(table => 'walk.seeds')"]
    )


def test_lag_goes_up_and_down(dashboard: RunningDashboard, warehouse: Path, open_page: Open) -> None:
    page = open_page()
    log_in(page, dashboard, "ada", PASSWORD)
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql(
            "create table db.lagging (id bigint, primary key (id)) tblproperties ('log-store.enabled' = 'true', "
            "'log-store.data-format' = 'debezium-json')"
        )
        page.goto(f"{dashboard.address}/tables/db.lagging/log")
        lag = page.locator(".card", has_text="Lag").locator("dd")
        expect(lag).to_contain_text("0")
        with lake.table("db.lagging").writer() as writer:
            writer.write(pa.table({"id": range(100)}))
            expect(lag).to_contain_text(re.compile(r"10\d"))  # a record that begins the epoch may count
        expect(lag).to_contain_text(re.compile(r"^0"))


def test_a_wrong_token_and_a_right_one(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    log_in(page, dashboard, "", "not the token of this dashboard")
    expect(page.get_by_role("alert").first).to_contain_text("Wrong")
    log_in(page, dashboard, "", TOKEN)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_session_that_has_expired_asks_again(dashboard: RunningDashboard, open_page: Open) -> None:
    page = open_page()
    log_in(page, dashboard, "ada", PASSWORD, "/settings")
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.context.clear_cookies()
    page.goto(f"{dashboard.address}/settings")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()


@pytest.mark.parametrize("leaves", ["logs out", "lets the session expire"])
def test_texts_of_a_terminal_are_for_their_user_only(dashboard: RunningDashboard, open_page: Open, leaves: str) -> None:
    page = open_page()
    log_in(page, dashboard, "ada", PASSWORD, "/terminal")
    run(page, "show databases")
    expect(page.get_by_label("History").locator("option", has_text="show databases")).to_have_count(1)
    page.get_by_label("Statements").fill("select 'of ada'")
    page.reload()
    expect(page.get_by_label("Statements")).to_have_text("select 'of ada'")
    page.get_by_label("Statements").fill("create catalog c with ('s3.secret-key' = 'HUNTER2')")
    assert "HUNTER2" not in page.evaluate(_STORED)
    page.get_by_label("Statements").fill("select 'of ada'")

    if leaves == "logs out":
        page.get_by_role("button", name="Log out").click()
    else:
        page.context.clear_cookies()
        page.reload()
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
    assert "lakelog-terminal" not in page.evaluate(_STORED)

    log_in(page, dashboard, "rita", PASSWORD, "/terminal")
    expect(page.get_by_label("Statements")).not_to_contain_text("ada")
    expect(page.get_by_label("History").locator("option", has_text="show databases")).to_have_count(0)


def test_two_users_with_their_own_rights(dashboard: RunningDashboard, open_page: Open) -> None:
    rita, ada = open_page(), open_page()
    log_in(rita, dashboard, "rita", PASSWORD, "/terminal")
    log_in(ada, dashboard, "ada", PASSWORD, "/settings")
    refused = done(run(rita, "drop table db.log_table"))
    expect(refused).to_contain_text(re.compile("right|role|allowed"))
    expect(ada.locator("tr", has_text="rita").first).to_be_visible()
    ada.on("dialog", lambda asked: asked.accept())
    for _ in range(ada.locator("tr", has_text="rita").count()):
        ada.locator("tr", has_text="rita").first.get_by_role("button", name="End").click()
        ada.reload()
    rita.goto(f"{dashboard.address}/")
    expect(rita.get_by_role("button", name="Log in")).to_be_visible()


@pytest.mark.parametrize(("theme", "width", "height"), [("light", 1280, 860), ("dark", 390, 800)])
def test_every_page_is_for_everybody(
    dashboard: RunningDashboard, open_page: Open, theme: str, width: int, height: int
) -> None:
    page = open_page(color_scheme=theme, viewport={"width": width, "height": height}, bypass_csp=True)
    log_in(page, dashboard, "ada", PASSWORD)
    for path in PAGES:
        page.goto(dashboard.address + path)
        page.locator("h1").wait_for()
        found = Axe().run(page).response["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], path
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), (
            f"{path} is wider than the screen"
        )


_CONTROLS = (
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0'], [contenteditable=true]"
)
_FOCUSED = """async () => {
  const one = document.activeElement
  if (one === document.body) return null
  window.reached = (window.reached || new Set()).add(one)
  const inner = one.shadowRoot?.activeElement  // of the editor, which draws its focus a moment later
  const isSeen = () => [one, inner?.closest('.cm-editor')].filter(Boolean).map((shown) => getComputedStyle(shown)).some(
    (style) => (style.outlineStyle !== 'none' && style.outlineWidth !== '0px') || style.boxShadow !== 'none')
  for (let frame = 0; frame < 60 && !isSeen(); frame++) await new Promise(requestAnimationFrame)
  const box = one.getBoundingClientRect()
  return isSeen() && box.width > 0 && box.bottom > 0 && box.top < innerHeight ? '' : one.outerHTML.slice(0, 120)
}"""
_MISSED = """(controls) => [...document.querySelectorAll(controls)]
  .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0 && !window.reached.has(one))
  .map((one) => one.outerHTML.slice(0, 120))"""


def test_every_page_works_with_the_keyboard_alone(
    dashboard: RunningDashboard, open_page: Open, ada: StorageState
) -> None:
    page = open_page(storage_state=ada, bypass_csp=True)
    for path in PAGES:
        page.goto(dashboard.address + path)
        page.locator("h1").wait_for()
        if path == "/terminal":
            page.get_by_label("Statements").wait_for()
        for _ in range(300):
            page.keyboard.press("Tab")
            hidden = page.evaluate(_FOCUSED)
            if hidden is None:
                break
            assert hidden == "", f"{path}: the focus cannot be seen"
        else:
            pytest.fail(f"{path}: the focus does not leave the page")
        assert page.evaluate(_MISSED, _CONTROLS) == [], path
        page.goto(dashboard.address + path)
        page.locator("h1").wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the link that leads past the menu
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null"), path
