"""How long the dashboard takes for its pages: an overview of many tables, a table of many snapshots.

usage: dashboard.py [--tables 1000] [--snapshots 10000] [--repeat 20] [--warehouse DIR] [--json FILE]

Fills a warehouse (or takes the one that an earlier run has filled), starts ``lakelog dashboard`` on it as a process of
its own, waits until it has inspected every table, and times each page: over HTTP, and in a Chromium, when there is one,
from the click to its load event. Ends with 1 when a page takes longer than a second.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx  # noqa: E402
import numpy as np
import pyarrow as pa
from process_tree import end_tree, rss_mb
from rich.console import Console
from rich.progress import track
from rich.table import Table as Drawn

from lakelog import Lake, connect
from lakelog.errors import NotFound
from servers.chromium import chromium, chromium_path

TARGET_MS = 1_000.0
WIDE, LONG = "many", "many.long"
COMPACT_EVERY = 500
ERRORS = Console(stderr=True)
TABS = ("columns", "snapshots", "files", "log", "rows", "runs")


def fill(lake: Lake, tables: int, snapshots: int) -> None:
    """Makes what is missing: tables of one commit each with a log, and one table with its snapshots."""
    lake.sql(f"create database if not exists {WIDE}")
    for number in track(range(tables - 1), "tables", console=ERRORS):
        name = f"{WIDE}.t{number:04}"
        if not _is_there(lake, name):
            lake.sql(
                f"create table {name} (id bigint, v bigint, primary key (id)) "
                "tblproperties ('bucket' = '1', 'log-store.enabled' = 'true')"
            )
            with lake.table(name).writer() as writer:
                writer.write(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": pa.array([1, 2, 3], pa.int64())}))
    if not _is_there(lake, LONG):
        lake.sql(
            f"create table {LONG} (id bigint, v bigint, primary key (id)) tblproperties ('bucket' = '2', "
            "'snapshot.num-retained.min' = '1000000', 'snapshot.num-retained.max' = '1000000', "
            "'snapshot.time-retained' = '1000 d')"
        )
    table = lake.table(LONG)
    have = max(table.history(1).column("version").to_pylist(), default=0)
    for number in track(range(have, snapshots), "snapshots", console=ERRORS):
        row = {"id": pa.array([number % 1_000], pa.int64()), "v": pa.array([number], pa.int64())}
        with table.writer() as writer:
            writer.write(pa.table(row))
        if number % COMPACT_EVERY == 0:
            table.compact(on_spark=False)


def _is_there(lake: Lake, name: str) -> bool:
    try:
        lake.table(name)
    except NotFound:
        return False
    return True


@contextmanager
def running(warehouse: Path, directory: Path) -> Iterator[tuple[str, int]]:
    """The dashboard in a process of its own: its address and the process."""
    command = [sys.executable, "-m", "lakelog", "dashboard", "--port", "0", "--state", str(directory / "state")]
    with (directory / "dashboard.log").open("w+b") as log:
        process = subprocess.Popen([*command, "--warehouse", str(warehouse)], stdout=log, stderr=log)
        try:
            end = time.monotonic() + 60
            while not (found := re.search(rb"http://[a-z0-9.]+:\d+", Path(log.name).read_bytes())):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the dashboard does not start:\n{Path(log.name).read_text()}")
                time.sleep(0.1)
            yield found[0].decode(), process.pid
        finally:
            end_tree(process.pid)
            process.wait()


def inspected_all(client: httpx.Client, tables: int) -> float:
    """Waits until every table was inspected; seconds."""
    began = time.monotonic()
    while client.get("/api/v1/tables?limit=1").raise_for_status().json()["looked"] < tables:
        time.sleep(0.2)
    return time.monotonic() - began


def timed(client: httpx.Client, path: str, repeat: int) -> dict[str, float]:
    """The first answer, and of the others median and longest; ms."""
    found = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        client.get(path).raise_for_status()
        found.append((time.perf_counter() - began) * 1_000)
    first, others = found[0], found[1:]
    return {"first": first, "median": float(np.median(others)), "longest": max(others)}


def in_browser(address: str, paths: list[str]) -> dict[str, float]:
    """Path → ms from the click to the load event, drawn, in a Chromium whose cache is warm; empty without one."""
    if chromium_path() is None:
        return {}
    out = {}
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{address}/settings", wait_until="load")
        for path in paths:
            took = []
            for _ in range(5):
                began = time.perf_counter()
                page.goto(address + path, wait_until="load")
                page.locator("h1").wait_for()
                took.append((time.perf_counter() - began) * 1_000)
            out[path] = float(np.median(took))
    return out


def measure(warehouse: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Fills, starts, times."""
    with connect(warehouse=str(warehouse)) as lake:
        fill(lake, given.tables, given.snapshots)
    wide = f"/tables/{WIDE}.t0000"
    paths = ["/", "/?sort=name", "/catalogs", "/log", "/optimizing", f"/tables/{LONG}", wide]
    paths += [f"/tables/{LONG}/{tab}" for tab in TABS]
    directory = Path(tempfile.mkdtemp(prefix="lakelog-dashboard-"))
    try:
        with running(warehouse, directory) as (address, process):
            with httpx.Client(base_url=address, headers={"accept": "text/html"}, timeout=60, trust_env=False) as client:
                early = timed(client, "/", 5)
                inspected_s = inspected_all(client, given.tables)
                pages = {path: timed(client, path, given.repeat) for path in paths}
            drawn = in_browser(address, ["/", f"/tables/{LONG}", f"/tables/{LONG}/snapshots"])
            memory = rss_mb(process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "tables": given.tables,
        "snapshots": given.snapshots,
        "all_inspected_s": inspected_s,
        "overview_meanwhile": early,
        "pages_ms": pages,
        "browser_ms": drawn,
        "memory_mb": memory,
        "ok": max(*(one["longest"] for one in pages.values()), *drawn.values(), 0.0) <= TARGET_MS,
    }


def draw(found: dict[str, Any]) -> None:
    """Prints the measurements as a table."""
    table = Drawn("page, ms", "first", "median", "longest", "Chromium, load event")
    for path, times in {"/ (while it looks)": found["overview_meanwhile"], **found["pages_ms"]}.items():
        shown = [f"{times[name]:.0f}" for name in ("first", "median", "longest")]
        table.add_row(path, *shown, f"{found['browser_ms'][path]:.0f}" if path in found["browser_ms"] else "")
    console = Console()
    console.print(table)
    console.print(
        f"{found['tables']:,} tables were inspected within {found['all_inspected_s']:.1f} s; "
        f"the server has {found['memory_mb']:.0f} MB"
    )


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1_000, help="of the overview (1000)")
    parser.add_argument("--snapshots", type=int, default=10_000, help="of the long table (10000)")
    parser.add_argument("--repeat", type=int, default=20, help="times each page is asked for (20)")
    parser.add_argument("--warehouse", type=Path, help="filled, if it is not yet, and kept")
    parser.add_argument("--json", type=Path, help="where the measurements go")
    given = parser.parse_args()
    directory = given.warehouse or Path(tempfile.mkdtemp(prefix="lakelog-dashboard-"))
    try:
        found = measure(directory, given)
    finally:
        if given.warehouse is None:
            shutil.rmtree(directory, ignore_errors=True)
    draw(found)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
