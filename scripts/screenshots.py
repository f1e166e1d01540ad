"""Takes the pictures of the dashboard's pages for the docs: ``make screenshots``; needs a Chromium.

Starts the demo and a dashboard beside it, lets the table grow until the plots have something to show, and takes each
page light and dark, on a desktop and on a phone, into docs/images/dashboard; then writes docs/guide/dashboard-pages.md.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx  # noqa: E402
from PIL import Image
from playwright.sync_api import Page, expect
from rich.console import Console
from rich.progress import track

from dashboards import running_dashboard
from lakelog.service.demo.process import DemoProcess, demo_warehouse
from servers.chromium import MISSING, chromium, chromium_path

DOCS = Path(__file__).parent.parent / "docs"
PICTURES = DOCS / "images" / "dashboard"
SCREENS = {"desktop": (1280, 860), "phone": (390, 800)}
SCHEMES = ("light", "dark")
TABLE = "demo.flights"
SETTLE_MS = 2_500
"""Plots are drawn, live parts have come."""
PAGES = {
    "overview": ("/", "All tables with freshness, size and pending maintenance."),
    "catalogs": ("/catalogs", "Databases and tables of all catalogs."),
    "health": (f"/tables/{TABLE}", "Health score of a table with its parts, and plots over time."),
    "columns": (f"/tables/{TABLE}/columns", "Columns, keys and options."),
    "snapshots": (f"/tables/{TABLE}/snapshots", "Snapshot history, paginated."),
    "files": (f"/tables/{TABLE}/files", "Files, partitions, buckets and other system tables."),
    "table-log": (f"/tables/{TABLE}/log", "Log of a table: offsets and lag per bucket, writers and readers."),
    "rows": (f"/tables/{TABLE}/rows", "Rows of the files, and a live tail of the log."),
    "runs": (f"/tables/{TABLE}/runs", "Maintenance runs of a table."),
    "log": ("/log", "Logs of all tables, and freshness of both stores."),
    "terminal": ("/terminal", "SQL statements, run in a separate process."),
    "optimizing": ("/optimizing", "Pending maintenance with reasons, blocked operations, and the latest runs."),
    "settings": ("/settings", "Configuration of the dashboard, and user sessions."),
}
STATEMENTS = f"show tables in demo;\nselect * from {TABLE} limit 5;\nselect nothing\nfrom {TABLE}"


def grow(address: str, demo: DemoProcess, seconds: int) -> None:
    """Waits until the table has rows, and then so long that there is something to see; maintains it once meanwhile."""
    with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
        end = time.monotonic() + 300
        while not any(
            one["name"].endswith(TABLE) and one["rows"] for one in client.get("/api/v1/tables").json()["tables"]
        ):
            if time.monotonic() > end:
                raise SystemExit(f"the demo's table gets no rows: {demo.trouble()}")
            time.sleep(1)
    optimize = [sys.executable, "-m", "lakelog", "optimize", "--once", "--warehouse", demo.warehouse]
    for second in track(range(seconds), "the table grows", console=Console(stderr=True)):
        if second == seconds // 2:
            subprocess.run(optimize, check=True, stdout=sys.stderr)
        time.sleep(1)
    if trouble := demo.trouble():
        raise SystemExit(trouble)


def take(page: Page, address: str, names: list[str]) -> None:
    """Pages in every form."""
    for name in track(names, "pages", console=Console(stderr=True)):
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": 1280, "height": 860})
            page.goto(address + PAGES[name][0])
            page.locator("h1").wait_for()
            if name == "terminal":
                page.get_by_label("Statements").fill(STATEMENTS)
                page.keyboard.press("Control+Enter")
                ended = page.locator("[data-results] > div").first.locator(
                    "header b", has_text=re.compile("done|failed")
                )
                expect(ended).to_have_count(3, timeout=600_000)
            if name == "rows":
                page.get_by_role("button", name="Follow").click()
            for screen, (width, height) in SCREENS.items():
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(SETTLE_MS)
                with Image.open(io.BytesIO(page.screenshot())) as picture:
                    small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
                    small.save(PICTURES / f"{name}-{scheme}-{screen}.png", optimize=True)


def guide() -> str:
    """The page with all pictures; each follows the reader's light or dark."""
    lines = [
        "# The dashboard's pages",
        "",
        "Screenshots of every page on a desktop and a phone. They follow the light or dark mode of your browser.",
        "[The dashboard](dashboard.md) describes the contents. `make screenshots` takes them from a running demo.",
    ]
    for name, (_, told) in PAGES.items():
        shown = " ".join(_picture(name, screen, told) for screen in SCREENS)
        lines += ["", f"## {name.replace('-', ' ').capitalize()}", "", told, "", shown]
    return "\n".join(lines) + "\n"


def _picture(name: str, screen: str, told: str) -> str:
    place, width = f"../images/dashboard/{name}", {"desktop": 640, "phone": 220}[screen]
    dark = f'<source media="(prefers-color-scheme: dark)" srcset="{place}-dark-{screen}.png">'
    return f'<picture>{dark}<img src="{place}-light-{screen}.png" width="{width}" alt="{told} ({screen})"></picture>'


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--grow", type=int, default=150, help="seconds that the demo's table has (150)")
    parser.add_argument("--only", nargs="+", choices=sorted(PAGES), default=list(PAGES), help="these pages (all)")
    given = parser.parse_args()
    if chromium_path() is None:
        raise SystemExit(MISSING)
    PICTURES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleanup:
        demo = cleanup.enter_context(demo_warehouse())
        address = cleanup.enter_context(running_dashboard(Path(demo.warehouse))).address
        grow(address, demo, given.grow)
        take(cleanup.enter_context(chromium()).new_page(), address, given.only)
    (DOCS / "guide" / "dashboard-pages.md").write_text(guide(), encoding="utf-8")


if __name__ == "__main__":
    main()
